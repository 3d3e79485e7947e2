// A voice message: play, pause, seek, and its shape drawn from the sound itself.
import { NkIcon } from "nekro_icons";

const BARS = 44;
let playing = null; // one voice at a time, over all messages of the page

async function shape(url) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${answer.status}`);
  const sound = await new OfflineAudioContext(1, 1, 44100).decodeAudioData(await answer.arrayBuffer());
  const samples = sound.getChannelData(0);
  const width = Math.max(1, Math.floor(samples.length / BARS));
  const bars = Array.from({ length: BARS }, (_, bar) => {
    let sum = 0;
    const end = Math.min((bar + 1) * width, samples.length);
    for (let i = bar * width; i < end; i += 4) sum += samples[i] * samples[i];
    return Math.sqrt(sum / Math.max(1, width / 4));
  });
  const top = Math.max(...bars, 0.001);
  return { bars: bars.map((bar) => Math.max(0.08, bar / top)), seconds: sound.duration };
}

function clock(seconds) {
  if (!Number.isFinite(seconds)) return "–:––";
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

export const NkVoice = {
  components: { NkIcon },
  props: { url: String, text: String, texts: Object },
  template: `
    <div class="nk-voice" :class="{ 'nk-voice-on': on }">
      <button type="button" class="nk-voice-play" @click="toggle" :aria-label="on ? texts.pause : texts.play">
        <nk-icon :name="on ? 'pause' : 'play'" :size="18" />
      </button>
      <div class="nk-wave" role="slider" tabindex="0" :aria-label="texts.voice" aria-valuemin="0"
           :aria-valuemax="Math.round(seconds) || 0" :aria-valuenow="Math.round(at)"
           @click="seek" @keydown.left.prevent="jump(-1)" @keydown.right.prevent="jump(1)">
        <i v-for="(bar, index) in bars" :key="index" :style="{ height: bar * 100 + '%' }"
           :class="{ 'nk-played': seconds && index / bars.length < at / seconds }"></i>
      </div>
      <span class="nk-voice-time">{{ at > 0 ? time(at) + ' / ' : '' }}{{ time(seconds) }}</span>
      <audio ref="audio" :src="url" preload="metadata" @timeupdate="tick" @loadedmetadata="tick"
             @play="on = true" @pause="on = false" @ended="ended" @error="failed = true"></audio>
    </div>
    <div v-if="failed" class="nk-problem">{{ texts.voice_failed }}</div>
    <div v-else-if="text" class="nk-said">{{ text }}</div>`,
  data: () => ({ on: false, at: 0, seconds: NaN, failed: false, bars: Array(BARS).fill(0.12) }),
  async mounted() {
    try {
      const found = await shape(this.url);
      this.bars = found.bars;
      this.seconds = found.seconds;
    } catch {
      // A sound that cannot be drawn may still be playable; the audio element says if not.
    }
  },
  beforeUnmount() {
    if (playing === this.$refs.audio) playing = null;
  },
  methods: {
    time: clock,
    toggle() {
      const audio = this.$refs.audio;
      if (!audio.paused) return audio.pause();
      if (playing && playing !== audio) playing.pause();
      playing = audio;
      audio.play().catch(() => (this.failed = true));
    },
    tick() {
      const audio = this.$refs.audio;
      this.at = audio.currentTime;
      if (Number.isFinite(audio.duration)) this.seconds = audio.duration;
    },
    ended() {
      this.on = false;
      this.at = 0;
    },
    jump(seconds) {
      this.$refs.audio.currentTime = Math.max(0, this.$refs.audio.currentTime + seconds);
    },
    seek(event) {
      const box = event.currentTarget.getBoundingClientRect();
      if (this.seconds) this.$refs.audio.currentTime = ((event.clientX - box.left) / box.width) * this.seconds;
    },
  },
};
