// The code behind an answer. Colours come from a small scan; what is shown is only ever text.
import { NkIcon } from "nekro_icons";

const WORDS =
  "and|as|assert|async|await|break|case|class|continue|def|del|elif|else|except|finally|for|from|global|if|" +
  "import|in|is|lambda|match|nonlocal|not|or|pass|raise|return|try|while|with|yield|None|True|False";
const SCAN = new RegExp(
  [
    "(?<comment>#[^\\n]*)",
    "(?<string>[rbfuRBFU]{0,2}(?:\"\"\"[\\s\\S]*?(?:\"\"\"|$)|'''[\\s\\S]*?(?:'''|$)|\"(?:\\\\.|[^\"\\\\\\n])*\"?|'(?:\\\\.|[^'\\\\\\n])*'?))",
    `(?<word>\\b(?:${WORDS})\\b)`,
    "(?<number>\\b\\d[\\d_.]*(?:e[+-]?\\d+)?\\b)",
    "(?<call>\\b[A-Za-z_]\\w*(?=\\s*\\())",
  ].join("|"),
  "g",
);
const LONGEST = 60000; // characters that are coloured; more would only make the page slow

export function colour(code) {
  if (code.length > LONGEST) return [{ kind: "", text: code }];
  const parts = [];
  let at = 0;
  for (const found of code.matchAll(SCAN)) {
    if (found.index > at) parts.push({ kind: "", text: code.slice(at, found.index) });
    const kind = Object.keys(found.groups).find((name) => found.groups[name] !== undefined);
    parts.push({ kind: `nk-${kind}`, text: found[0] });
    at = found.index + found[0].length;
  }
  if (at < code.length) parts.push({ kind: "", text: code.slice(at) });
  return parts;
}

// One run. A turn of several counts them; what plugins noted stands with the one that answered.
const NkRun = {
  components: { NkIcon },
  props: { run: Object, count: String, texts: Object, notes: Array },
  template: `
    <div class="nk-run">
      <div class="nk-run-head">
        <span>{{ texts.run_code }} {{ count }}</span>
        <span class="nk-run-facts">
          <span :class="{ 'nk-bad': run.error }">{{ run.error ? texts.run_failed : ['finished', 'printed'].includes(run.stop) ? '' : run.stop }}</span>
          <span>{{ duration }}</span>
        </span>
        <button type="button" class="nk-mini" @click="copy" :aria-label="texts.copy" :title="texts.copy">
          <nk-icon :name="copied ? 'check' : 'copy'" :size="16" />
        </button>
      </div>
      <div v-if="!code" class="nk-run-note">{{ texts.run_words }}</div>
      <pre v-else class="nk-code" tabindex="0"><code><span v-for="(part, i) in parts" :key="i" :class="part.kind">{{ part.text }}</span></code></pre>
      <ul v-if="notes?.length" class="nk-run-note"><li v-for="(note, i) in notes" :key="i">{{ note }}</li></ul>
      <template v-if="run.output">
        <div class="nk-run-head">{{ texts.run_output }}</div>
        <pre class="nk-output" tabindex="0">{{ run.output }}</pre>
      </template>
      <template v-if="run.error">
        <div class="nk-run-head nk-bad">{{ texts.run_error }}</div>
        <pre class="nk-output nk-bad" tabindex="0">{{ run.error }}</pre>
      </template>
    </div>`,
  data: () => ({ copied: false }),
  computed: {
    // A reply's blocks keep their line numbers by blank lines in front, which nobody wants to see.
    code() {
      return this.run.code.replace(/^(?:[ \t]*\n)+/, "").trimEnd();
    },
    parts() {
      return colour(this.code);
    },
    duration() {
      const seconds = this.run.seconds;
      return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;
    },
  },
  methods: {
    async copy() {
      await navigator.clipboard?.writeText(this.code);
      this.copied = true;
      setTimeout(() => (this.copied = false), 1500);
    },
  },
};

// Every run of the turn that an answer came from, in order.
export const NkCode = {
  components: { NkRun },
  props: { url: String, texts: Object, notes: Array },
  template: `
    <div v-if="!answer" class="nk-run">
      <div v-if="problem" class="nk-problem">{{ problem }}</div>
      <div v-else class="nk-run-head">{{ texts.loading }}</div>
    </div>
    <nk-run v-else v-for="(run, i) in answer.turn" :key="run.run_id" :run="run" :texts="texts" :count="answer.turn.length > 1 ? \`\${i + 1}/\${answer.turn.length}\` : ''"
      :notes="run.run_id === answer.run_id ? notes : []" />`,
  data: () => ({ answer: null, problem: "" }),
  async mounted() {
    try {
      const answer = await fetch(this.url);
      const body = await answer.json();
      if (answer.ok) this.answer = body;
      else this.problem = body.error.message;
    } catch {
      this.problem = this.texts.offline;
    }
  },
};
