// One message: who, what, and what became of it.
import { NkAvatar, NkIcon } from "nekro_icons";
import { NkCode } from "nekro_code";
import { NkVoice } from "nekro_voice";

const RICH = /```(?:[\w+-]*\n)?([\s\S]*?)```|`([^`\n]+)`|(https?:\/\/[^\s<>"'`，。！？、）】」』]+)/g;

// Text into pieces that are put in as text nodes: nothing people write is ever read as HTML.
export function rich(text) {
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(RICH)) {
    if (found.index > at) parts.push({ kind: "text", text: text.slice(at, found.index) });
    if (found[1] !== undefined) parts.push({ kind: "block", text: found[1] });
    else if (found[2] !== undefined) parts.push({ kind: "code", text: found[2] });
    else parts.push({ kind: "link", text: found[3] });
    at = found.index + found[0].length;
  }
  if (at < text.length) parts.push({ kind: "text", text: text.slice(at) });
  return parts;
}

export function bytes(size) {
  if (size < 1000) return `${size} B`;
  const units = ["kB", "MB", "GB"];
  let unit = -1;
  while (size >= 1000 && unit < 2) {
    size /= 1000;
    unit += 1;
  }
  return `${size < 10 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

export function plain(segments, texts) {
  const words = { image: texts.image, voice: texts.voice, video: texts.video };
  return segments
    .map((part) => {
      if (part.type === "text") return part.text;
      if (part.type === "mention") return `@${part.name || part.id} `;
      if (part.type === "file") return `[${part.name || texts.file}]`;
      return words[part.type] ? `[${words[part.type]}]` : "";
    })
    .join("");
}

export const NkSegments = {
  name: "NkSegments",
  components: { NkIcon, NkVoice },
  props: { segments: Array, texts: Object, bot: Object },
  emits: ["show", "goto"],
  inject: { findMessage: { default: () => () => null } },
  template: `
    <template v-for="(part, index) in grouped" :key="index">
      <p v-if="part.type === 'words'" class="nk-text" dir="auto"><template v-for="(word, i) in part.words" :key="i"
        ><span v-if="word.kind === 'mention'" class="nk-mention" :class="{ 'nk-mention-bot': word.id === bot.id }">@{{ word.text }}</span
        ><a v-else-if="word.kind === 'link'" :href="word.text" target="_blank" rel="noopener noreferrer nofollow">{{ word.text }}</a
        ><code v-else-if="word.kind === 'code'">{{ word.text }}</code
        ><pre v-else-if="word.kind === 'block'">{{ word.text }}</pre
        ><template v-else>{{ word.text }}</template></template></p>
      <div v-else-if="part.type === 'markdown'" class="nk-text nk-markdown" dir="auto" v-html="part.html"></div>
      <button v-else-if="part.type === 'reply'" type="button" class="nk-quote" @click="$emit('goto', part.message_id)">
        <b>{{ quoted(part).name }}</b><span dir="auto">{{ quoted(part).text || '…' }}</span>
      </button>
      <div v-else-if="part.problem || (media(part) && !part.url)" class="nk-problem">
        <nk-icon name="warn" :size="16" /> {{ part.name }} {{ part.problem || texts.media_gone }}
      </div>
      <button v-else-if="part.type === 'image'" type="button" class="nk-picture" @click="$emit('show', part)" :aria-label="texts.enlarge">
        <img :src="part.url" :alt="part.name || texts.image" loading="lazy" />
      </button>
      <nk-voice v-else-if="part.type === 'voice'" :url="part.url" :text="part.text" :texts="texts" />
      <video v-else-if="part.type === 'video'" class="nk-video" :src="part.url" controls preload="metadata"></video>
      <a v-else-if="part.type === 'file'" class="nk-file" :href="part.url" :download="part.name || 'file'">
        <span class="nk-file-icon"><nk-icon name="file" /></span>
        <span class="nk-file-name"><b dir="auto">{{ part.name || texts.file }}</b><small>{{ size(part.size) }}</small></span>
        <nk-icon name="down" :size="18" />
      </a>
      <div v-else-if="part.type === 'forward'" class="nk-forward">
        <div v-for="(message, i) in part.messages" :key="i"><b>{{ message.name }}</b>
          <nk-segments :segments="message.segments" :texts="texts" :bot="bot" /></div>
      </div>
      <span v-else class="nk-unknown">[{{ part.summary || part.kind }}]</span>
    </template>`,
  computed: {
    // Text and mentions that follow each other are one paragraph. The server has made the HTML of
    // Markdown, with tags and attributes of a fixed list alone.
    grouped() {
      const groups = [];
      for (const part of this.segments) {
        if (part.html) {
          groups.push({ type: "markdown", html: part.html });
          continue;
        }
        if (part.type !== "text" && part.type !== "mention") {
          groups.push(part);
          continue;
        }
        if (groups.at(-1)?.type !== "words") groups.push({ type: "words", words: [] });
        const words =
          part.type === "text" ? rich(part.text) : [{ kind: "mention", id: part.id, text: part.name || part.id }];
        const before = groups.at(-1).words;
        if (before.at(-1)?.kind === "mention" && part.type === "text" && !/^\s/.test(part.text)) {
          before.push({ kind: "text", text: " " });
        }
        before.push(...words);
      }
      return groups;
    },
  },
  methods: {
    size: bytes,
    // What the message itself knows of the one it answers, or else what this page knows.
    quoted(part) {
      const known = this.findMessage(part.message_id);
      const speaker = part.speaker || (known?.author === "bot" ? this.bot.id : known?.name) || "";
      return {
        name: speaker === this.bot.id ? this.bot.name : speaker,
        text: part.text || (known ? plain(known.segments, this.texts) : ""),
      };
    },
    media: (part) => ["image", "voice", "video", "file"].includes(part.type),
  },
};

export const NkMessage = {
  components: { NkAvatar, NkCode, NkIcon, NkSegments },
  props: {
    message: Object, mine: Boolean, first: Boolean, withCode: Boolean, notes: Array, sending: String,
    texts: Object, bot: Object, api: String, time: String, fullTime: String,
  },
  emits: ["reply", "mention", "show", "goto", "retry", "discard"],
  template: `
    <div class="nk-line" :class="{ 'nk-mine': mine, 'nk-first': first, 'nk-of-bot': isBot }"
         :data-seq="message.seq" :data-message-id="message.message_id">
      <button v-if="!mine" type="button" class="nk-face" :class="{ 'nk-hidden': !first }" tabindex="-1"
              :aria-label="'@' + name" :title="'@' + name" @click="$emit('mention', name)">
        <nk-avatar :name="name" :bot="isBot" />
      </button>
      <div class="nk-body">
        <div v-if="first" class="nk-who"><b dir="auto">{{ name }}</b><time :title="fullTime">{{ time }}</time></div>
        <div class="nk-row">
          <div class="nk-bubble" :class="{ 'nk-bare': bare, 'nk-waiting': sending === 'sending' }">
            <span v-if="message.recalled" class="nk-unknown">{{ texts.recalled }}</span>
            <nk-segments v-else :segments="message.segments" :texts="texts" :bot="bot"
                         @show="$emit('show', $event)" @goto="$emit('goto', $event)" />
          </div>
          <div v-if="!sending && !message.recalled" class="nk-tools">
            <button v-if="message.message_id" type="button" class="nk-mini" :aria-label="texts.reply" :title="texts.reply"
                    @click="$emit('reply', message)"><nk-icon name="reply" :size="17" /></button>
          </div>
        </div>
        <div v-if="sending === 'failed'" class="nk-state nk-bad" role="alert">
          <nk-icon name="warn" :size="15" /> {{ message.problem || texts.not_sent }}
          <button type="button" class="nk-link" @click="$emit('retry')">{{ texts.retry }}</button>
          <button type="button" class="nk-link" @click="$emit('discard')">{{ texts.discard }}</button>
        </div>
        <div v-else-if="stateText" class="nk-state" :class="'nk-state-' + message.state">
          <nk-icon :name="message.state === 'pending' || message.state === 'sending' ? 'clock' : 'warn'" :size="15" /> {{ stateText }}
        </div>
        <button v-if="withCode" type="button" class="nk-show-code" :aria-expanded="open ? 'true' : 'false'" @click="open = !open">
          <nk-icon name="code" :size="16" /> {{ open ? texts.hide_code : texts.show_code }}
        </button>
        <nk-code v-if="open" :url="runUrl" :texts="texts" :notes="notes" />
      </div>
    </div>`,
  data: () => ({ open: false }),
  computed: {
    isBot() {
      return this.message.author === "bot";
    },
    name() {
      return this.isBot ? this.bot.name : this.message.name || "?";
    },
    // A picture or a voice alone needs no bubble around it.
    bare() {
      const parts = this.message.segments;
      return parts.length > 0 && parts.every((part) => part.type === "image" && part.url);
    },
    stateText() {
      if (!this.isBot || this.message.state === "sent") return "";
      return this.texts[`state_${this.message.state}`] ?? this.message.state;
    },
    runUrl() {
      const room = encodeURIComponent(this.message.room);
      return `${this.api}/rooms/${room}/runs/${encodeURIComponent(this.message.run_id)}`;
    },
  },
};
