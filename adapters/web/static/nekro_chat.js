// The chat page. It writes through the HTTP API, as a script would, and hears of everything that
// happens over NiceGUI's socket (`receive`, `show_working`, `resync` are called by the server).
import { nextTick } from "vue";
import { NkAvatar, NkIcon } from "nekro_icons";
import { NkMessage, plain } from "nekro_message";

const PAGE = 200; // messages of one look into the history
const MOST = 1000; // messages that can be looked back at, the API's bound
const MAX_FILES = 8;
const MAX_FILE_BYTES = 32 * 1024 * 1024;
const GROUP_S = 300; // a message this soon after one of the same person needs no second name

const kept = {
  read(key, otherwise) {
    try {
      return JSON.parse(localStorage.getItem(`nekro.${key}`)) ?? otherwise;
    } catch {
      return otherwise;
    }
  },
  write(key, value) {
    try {
      localStorage.setItem(`nekro.${key}`, JSON.stringify(value));
    } catch {
      // A full or forbidden storage only means that the next visit starts afresh.
    }
  },
};

function newKey() {
  // randomUUID is missing where the page is not served over HTTPS or loopback.
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (n) => n.toString(16).padStart(2, "0")).join("");
}

export default {
  name: "NekroChat",
  components: { NkAvatar, NkIcon, NkMessage },
  props: { language: String, texts: Object, bot: Object, api: String },
  provide() {
    return { findMessage: (id) => this.current?.messages.find((message) => message.message_id === id) ?? null };
  },
  data() {
    return {
      rooms: {},
      room: "",
      speakers: kept.read("speakers", []),
      speaker: kept.read("speaker", ""),
      toBot: kept.read("toBot", true),
      theme: kept.read("theme", "auto"),
      systemDark: matchMedia("(prefers-color-scheme: dark)").matches,
      draft: "",
      drafts: {},
      files: [],
      replyTo: null,
      outgoing: [],
      drawer: false,
      choosing: false,
      newSpeaker: "",
      creating: null,
      shown: null,
      notice: "",
      offline: false,
      dragging: false,
      atBottom: true,
      ready: false,
    };
  },
  template: `
<div class="nk" :data-theme="dark ? 'dark' : 'light'" @dragover.prevent="dragging = true" @dragleave.self="dragging = false"
     @drop.prevent="drop" @keydown.esc="escape">
  <div v-if="drawer" class="nk-veil" @click="drawer = false"></div>
  <aside class="nk-side" :class="{ 'nk-side-open': drawer }">
    <div class="nk-brand"><nk-avatar :name="bot.name" bot :size="34" /><span>{{ bot.name }}</span></div>
    <div class="nk-side-head"><span>{{ texts.rooms }}</span>
      <button type="button" class="nk-mini" :aria-label="texts.new_room" :title="texts.new_room" @click="creating = { kind: 'group', name: '' }">
        <nk-icon name="plus" :size="18" /></button></div>
    <nav class="nk-rooms">
      <button v-for="entry in roomList" :key="entry.room" type="button" class="nk-room" :class="{ 'nk-room-on': entry.room === room }"
              :aria-current="entry.room === room ? 'page' : null" @click="enter(entry.room)">
        <nk-icon :name="entry.kind === 'private' ? 'person' : 'hash'" :size="18" />
        <span dir="auto">{{ entry.name }}</span>
        <i v-if="entry.working" class="nk-pulse" :title="say('working')"></i>
        <i v-else-if="entry.unread" class="nk-unread">{{ entry.unread > 99 ? '99+' : entry.unread }}</i>
      </button>
    </nav>
    <div class="nk-manage" role="group" :aria-label="texts.manage">
      <a href="/ui/console">{{ texts.console_title }}</a><a href="/ui/console/turns">{{ texts.turns_title }}</a><a href="/ui/console/undelivered">{{ texts.outbox_title }}</a><a href="/ui/plugins">{{ texts.plugins_title }}</a></div>
    <button type="button" class="nk-theme" @click="nextTheme"><nk-icon :name="themeIcon" :size="18" />{{ say('theme', { theme: texts['theme_' + theme] }) }}</button>
  </aside>

  <main class="nk-main">
    <header class="nk-top">
      <button type="button" class="nk-mini nk-menu" :aria-label="texts.menu" @click="drawer = true"><nk-icon name="menu" :size="22" /></button>
      <div class="nk-title" v-if="current"><h1 dir="auto">{{ current.name }}</h1><small>{{ subtitle }}</small></div>
    </header>
    <div v-if="offline" class="nk-offline" role="status">{{ texts.offline }}</div>

    <div class="nk-scroll" ref="scroll" @scroll.passive="scrolled">
      <div class="nk-lines" ref="lines" role="log" aria-live="polite" v-if="current">
        <button v-if="hasEarlier" type="button" class="nk-earlier" @click="earlier">{{ texts.earlier }}</button>
        <section v-if="ready && current.loaded && !lines.length" class="nk-empty">
          <nk-avatar :name="bot.name" bot :size="72" />
          <h2>{{ say('empty_title') }}</h2><p>{{ say('empty_help') }}</p>
          <div class="nk-suggest">
            <button v-for="n in 4" :key="n" type="button" @click="suggest(texts['suggest_' + n])">{{ texts['suggest_' + n] }}</button>
          </div>
        </section>
        <template v-for="line in lines" :key="line.key">
          <div v-if="line.day" class="nk-day"><span>{{ line.day }}</span></div>
          <div v-if="line.system" class="nk-system">{{ line.system }}</div>
          <nk-message v-else :message="line.message" :mine="line.mine" :first="line.first" :with-code="line.withCode" :notes="line.notes" :sending="line.sending"
            :texts="texts" :bot="bot" :api="api" :time="line.time" :full-time="line.fullTime"
            @reply="answer" @mention="mention" @show="shown = $event" @goto="goTo" @retry="retry(line.message)" @discard="discard(line.message)" />
        </template>
        <div v-if="current.working" class="nk-working" role="status">
          <nk-avatar :name="bot.name" bot /><span class="nk-dots"><i></i><i></i><i></i></span><span>{{ say('working') }}</span>
          <button type="button" class="nk-stop" @click="stop"><nk-icon name="stop" :size="16" />{{ texts.stop }}</button>
        </div>
      </div>
    </div>
    <button v-if="!atBottom && lines.length" type="button" class="nk-newest" :aria-label="texts.newest" :title="texts.newest" @click="toBottom(true)">
      <nk-icon name="down" :size="20" /></button>

    <footer class="nk-foot" v-if="current">
      <div v-if="notice" class="nk-notice" role="alert">{{ notice }}<button type="button" class="nk-mini" :aria-label="texts.close" @click="notice = ''"><nk-icon name="close" :size="16" /></button></div>
      <form class="nk-composer" @submit.prevent="send">
        <div v-if="replyTo" class="nk-answering"><nk-icon name="reply" :size="16" />
          <span><b>{{ say('replying', { name: replyTo.author === 'bot' ? bot.name : replyTo.name }) }}</b> {{ preview(replyTo) }}</span>
          <button type="button" class="nk-mini" :aria-label="texts.cancel" @click="replyTo = null"><nk-icon name="close" :size="16" /></button></div>
        <div v-if="files.length" class="nk-files">
          <span v-for="(file, i) in files" :key="file.key" class="nk-chosen">
            <img v-if="file.preview" :src="file.preview" alt="" /><nk-icon v-else name="file" :size="18" /><span>{{ file.file.name }}</span>
            <button type="button" class="nk-mini" :aria-label="say('remove', { name: file.file.name })" @click="removeFile(i)"><nk-icon name="close" :size="15" /></button></span>
        </div>
        <textarea ref="text" v-model="draft" rows="1" dir="auto" maxlength="20000" :placeholder="say('placeholder', { room: current.name })"
          :aria-label="say('placeholder', { room: current.name })" @keydown.enter="enterKey" @input="grow" @paste="paste"></textarea>
        <div class="nk-bar">
          <div class="nk-speaker" v-if="current.kind === 'group'">
            <button type="button" class="nk-chip" :aria-expanded="choosing ? 'true' : 'false'" :title="say('write_as', { name: speaker })" @click="choosing = !choosing">
              <nk-avatar :name="speaker || '?'" :size="22" /><span dir="auto">{{ speaker }}</span></button>
            <div v-if="choosing" class="nk-pop">
              <small>{{ texts.speak_as }}</small>
              <button v-for="name in people" :key="name" type="button" class="nk-person" :class="{ 'nk-person-on': name === speaker }" @click="speakAs(name)">
                <nk-avatar :name="name" :size="24" /><span dir="auto">{{ name }}</span><nk-icon v-if="name === speaker" name="check" :size="16" /></button>
              <div class="nk-add"><input v-model="newSpeaker" maxlength="64" :placeholder="texts.add_speaker" :aria-label="texts.add_speaker" @keydown.enter.prevent="addSpeaker" />
                <button type="button" class="nk-mini" :aria-label="texts.add" @click="addSpeaker"><nk-icon name="plus" :size="18" /></button></div>
            </div>
          </div>
          <button v-if="current.kind === 'group'" type="button" class="nk-chip nk-ask" :class="{ 'nk-chip-on': toBot }" :aria-pressed="toBot ? 'true' : 'false'"
            :title="say(toBot ? 'to_bot_on' : 'to_bot_off')" @click="toBot = !toBot"><nk-icon name="at" :size="16" />{{ say('to_bot') }}</button>
          <span class="nk-gap"></span>
          <button type="button" class="nk-round" :aria-label="texts.attach" :title="texts.attach" @click="$refs.file.click()"><nk-icon name="clip" /></button>
          <input ref="file" type="file" multiple hidden @change="choose" />
          <button type="submit" class="nk-round nk-send" :disabled="!canSend" :aria-label="texts.send" :title="texts.send"><nk-icon name="send" /></button>
        </div>
      </form>
    </footer>
  </main>

  <div v-if="dragging" class="nk-drop" @dragleave="dragging = false">{{ texts.drop_here }}</div>
  <div v-if="shown" class="nk-light" role="dialog" aria-modal="true" :aria-label="shown.name || texts.image" @click="shown = null">
    <img :src="shown.url" :alt="shown.name || texts.image" />
    <div class="nk-light-bar" @click.stop><span>{{ shown.name }}</span>
      <a class="nk-mini" :href="shown.url" :download="shown.name || 'picture'" :aria-label="texts.download" :title="texts.download"><nk-icon name="down" /></a>
      <button type="button" class="nk-mini" :aria-label="texts.close" @click="shown = null"><nk-icon name="close" /></button></div>
  </div>
  <div v-if="creating" class="nk-light nk-dialog-veil" @click.self="creating = null">
    <form class="nk-dialog" role="dialog" aria-modal="true" :aria-label="texts.new_room" @submit.prevent="create">
      <h2>{{ texts.new_room }}</h2>
      <div class="nk-kinds">
        <button v-for="kind in ['group', 'private']" :key="kind" type="button" :class="{ 'nk-kind-on': creating.kind === kind }"
          :aria-pressed="creating.kind === kind ? 'true' : 'false'" @click="creating.kind = kind">
          <nk-icon :name="kind === 'private' ? 'person' : 'hash'" :size="18" />{{ texts['kind_' + kind] }}</button></div>
      <p>{{ texts['kind_' + creating.kind + '_help'] }}</p>
      <input ref="name" v-model="creating.name" maxlength="64" :placeholder="creating.kind === 'group' ? texts.room_name : texts.your_name"
        :aria-label="creating.kind === 'group' ? texts.room_name : texts.your_name" />
      <div v-if="creating.problem" class="nk-problem" role="alert">{{ creating.problem }}</div>
      <div class="nk-dialog-bar"><button type="button" class="nk-plain" @click="creating = null">{{ texts.cancel }}</button>
        <button type="submit" class="nk-primary" :disabled="!creating.name.trim()">{{ texts.create }}</button></div>
    </form>
  </div>
</div>`,
  computed: {
    current() {
      return this.rooms[this.room];
    },
    roomList() {
      return Object.values(this.rooms).sort((a, b) => b.newest - a.newest);
    },
    dark() {
      return this.theme === "dark" || (this.theme === "auto" && this.systemDark);
    },
    themeIcon() {
      return { auto: "auto", light: "sun", dark: "moon" }[this.theme];
    },
    heard() {
      const names = new Set();
      for (const message of this.current?.messages ?? []) if (message.author === "person" && message.speaker) names.add(message.speaker);
      return names;
    },
    people() {
      return [...new Set([...this.speakers, ...this.heard])];
    },
    me() {
      return this.current?.kind === "private" ? this.current.name : this.speaker;
    },
    subtitle() {
      if (this.current.kind === "private") return this.say("private_with");
      const count = new Set([...this.heard, this.speaker]).size;
      return this.say(count === 1 ? "people_one" : "people_many", { count });
    },
    canSend() {
      return Boolean(this.draft.trim() || this.files.length);
    },
    hasEarlier() {
      return this.current.more && this.current.limit < MOST;
    },
    lines() {
      const waiting = this.outgoing.filter((message) => message.room === this.room);
      const lastOfRun = {};
      const notes = {};
      for (const message of this.current.messages) {
        if (!message.run_id) continue;
        if (message.author === "bot") lastOfRun[message.run_id] = message.seq;
        else (notes[message.run_id] ??= []).push(plain(message.segments, this.texts));
      }
      // What a run wrote into the record is for the model; people find it with the run's code.
      const shown = this.current.messages.filter((message) => message.author !== "system" || !lastOfRun[message.run_id]);
      const messages = [...shown, ...waiting];
      let before = null;
      return messages.map((message) => {
        const day = this.day(message.time);
        const line = {
          key: message.key ?? message.seq,
          message,
          day: !before || this.day(before.time) !== day ? day : "",
          system: this.system(message),
          mine: message.author === "person" && message.speaker === this.me,
          sending: message.key ? message.state : "",
          notes: notes[message.run_id],
          withCode: lastOfRun[message.run_id] === message.seq && message.author === "bot",
          time: this.clock(message.time),
          fullTime: new Date(message.time * 1000).toLocaleString(this.language),
        };
        line.first = Boolean(line.day) || !before || before.author !== message.author || before.speaker !== message.speaker ||
          message.time - before.time > GROUP_S || Boolean(this.system(before));
        before = message;
        return line;
      });
    },
  },
  watch: {
    speakers: { deep: true, handler: (value) => kept.write("speakers", value) },
    speaker: (value) => kept.write("speaker", value),
    toBot: (value) => kept.write("toBot", value),
    theme: (value) => kept.write("theme", value),
    dark: { immediate: true, handler: (value) => (document.documentElement.style.colorScheme = value ? "dark" : "light") },
    creating(value, before) {
      if (value && !before) nextTick(() => this.$refs.name?.focus());
    },
  },
  async mounted() {
    document.documentElement.lang = this.language;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => (this.systemDark = event.matches));
    if (!this.speaker) this.speakAs(this.texts.guest);
    if (!this.speakers.length) this.speakers.push(this.speaker);
    addEventListener("click", this.closePopover);
    this.watchConnection();
    await this.loadRooms();
    const wanted = [location.hash.slice(1), encodeURIComponent(kept.read("room", ""))];
    const found = (name) => this.roomList.find((entry) => encodeURIComponent(entry.room) === name);
    const known = found(wanted[0]) ?? found(wanted[1]) ?? this.roomList[0];
    await this.enter(known?.room ?? this.addRoom("group", this.texts.first_room).room);
    this.ready = true;
    await nextTick();
    this.lastTop = 0;
    this.resizes = new ResizeObserver(() => this.stayAtEnd());
    for (const box of [this.$refs.scroll, this.$refs.lines]) this.resizes.observe(box);
  },
  beforeUnmount() {
    removeEventListener("click", this.closePopover);
    this.resizes?.disconnect();
  },
  methods: {
    // ---- called by the server -------------------------------------------------------------
    receive(record) {
      const room = this.roomOf(record.room);
      this.outgoing = this.outgoing.filter((waiting) => waiting.message_id !== record.message_id || !record.message_id);
      room.newest = Math.max(room.newest, record.time);
      // Of a message that changes (its delivery, its text) only the first sight is news.
      const isNew = record.seq > room.last;
      room.last = Math.max(room.last, record.seq);
      if (room.loaded) {
        const at = room.messages.findIndex((message) => message.seq >= record.seq);
        if (at < 0) room.messages.push(record);
        else if (room.messages[at].seq === record.seq) return void (room.messages[at] = record);
        else room.messages.splice(at, 0, record);
      }
      if (record.room === this.room) this.follow();
      else if (isNew && record.author !== "system") room.unread += 1;
    },
    show_working(name, busy) {
      this.roomOf(name).working = busy;
      if (name === this.room) this.follow();
    },
    async resync() {
      if (!this.ready) return;
      await this.loadRooms();
      for (const room of Object.values(this.rooms)) if (room.room !== this.room) room.loaded = false;
      await this.load();
    },
    // ---- rooms ----------------------------------------------------------------------------
    roomOf(name) {
      const [kind, rest] = [name.slice(0, name.indexOf("_")), name.slice(name.indexOf("_") + 1)];
      return this.rooms[name] ?? this.addRoom(kind, rest);
    },
    addRoom(kind, name) {
      const room = `${kind}_${name}`;
      this.rooms[room] ??= {
        room, kind, name, working: false, unread: 0, newest: 0, last: 0, messages: [], loaded: false, limit: PAGE, more: false,
      };
      return this.rooms[room];
    },
    async loadRooms() {
      const found = await this.ask("/rooms");
      if (!found) return;
      // The list comes newest first; until a message says more, its order stands for the time.
      found.rooms.forEach((entry, index) => {
        const room = this.addRoom(entry.kind, entry.name);
        room.working = entry.working;
        room.newest ||= found.rooms.length - index;
      });
    },
    async enter(name) {
      if (this.room && this.room !== name) this.drafts[this.room] = this.draft;
      this.draft = this.drafts[name] ?? "";
      this.room = name;
      this.replyTo = null;
      this.drawer = false;
      this.current.unread = 0;
      kept.write("room", name);
      history.replaceState(null, "", `#${encodeURIComponent(name)}`);
      document.title = `${this.current.name} · ${this.bot.name}`;
      if (!this.current.loaded) await this.load();
      this.toBottom();
      nextTick(() => this.grow());
      if (matchMedia("(hover: hover)").matches) this.$refs.text?.focus();
    },
    async load() {
      const room = this.current;
      const found = await this.ask(`/rooms/${encodeURIComponent(room.room)}/messages?limit=${room.limit}`);
      if (!found) return;
      // What arrived over the socket while this was on its way is newer and stays.
      const last = found.messages.at(-1)?.seq ?? 0;
      room.messages = [...found.messages, ...room.messages.filter((message) => message.seq > last)];
      room.more = found.messages.length >= room.limit;
      room.working = found.working;
      room.loaded = true;
      if (found.messages.length) room.newest = Math.max(room.newest, found.messages.at(-1).time);
      this.follow();
    },
    async earlier() {
      this.atBottom = false;
      const box = this.$refs.scroll;
      const below = box.scrollHeight - box.scrollTop;
      this.current.limit = Math.min(MOST, this.current.limit + PAGE * 2);
      this.atBottom = false;
      await this.load();
      await nextTick();
      box.scrollTop = box.scrollHeight - below;
    },
    create() {
      const name = this.creating.name.trim().normalize("NFC");
      if (/[/\\#%?@"<>\p{C}]/u.test(name) || /^\.+$/.test(name)) {
        this.creating.problem = `/ \\ # % ? @ " < >`;
        return;
      }
      const room = this.addRoom(this.creating.kind, name);
      room.newest = Math.max(room.newest, Date.now() / 1000);
      this.creating = null;
      this.enter(room.room);
    },
    // ---- writing --------------------------------------------------------------------------
    async send() {
      if (!this.canSend) return;
      const text = this.draft.trim();
      const message = {
        key: newKey(), room: this.room, author: "person", speaker: this.me, name: this.me, state: "sending",
        time: Date.now() / 1000, run_id: "", message_id: "", files: this.files,
        body: {
          speaker: this.me, text, to_bot: this.current.kind === "group" && this.toBot, reply_to: this.replyTo?.message_id ?? "",
        },
        segments: [
          ...(text ? [{ type: "text", text }] : []),
          ...this.files.map(({ file, preview }) => ({
            type: preview ? "image" : "file", url: preview || "#", name: file.name, size: file.size,
          })),
        ],
      };
      this.draft = "";
      this.files = [];
      this.replyTo = null;
      this.outgoing.push(message);
      nextTick(() => this.grow());
      this.toBottom(true);
      await this.deliver(this.outgoing.at(-1));
    },
    async deliver(message) {
      message.state = "sending";
      // The key makes trying again safe: the same message is never taken twice.
      const options = { method: "POST", headers: { "Idempotency-Key": message.key } };
      if (message.files.length) {
        options.body = new FormData();
        options.body.append("message", JSON.stringify(message.body));
        for (const { file } of message.files) options.body.append("files", file, file.name);
      } else {
        options.headers["Content-Type"] = "application/json";
        options.body = JSON.stringify(message.body);
      }
      try {
        const answer = await fetch(`${this.api}/rooms/${encodeURIComponent(message.room)}/messages`, options);
        if (answer.status === 401) return location.reload();
        const found = await answer.json();
        if (!answer.ok) throw new Error(found.error.message);
        this.outgoing = this.outgoing.filter((waiting) => waiting.key !== message.key);
        for (const { preview } of message.files) if (preview) URL.revokeObjectURL(preview);
        this.receive(found);
      } catch (problem) {
        message.problem = problem instanceof TypeError ? this.texts.not_sent : problem.message;
        message.state = "failed";
      }
    },
    retry(message) {
      this.deliver(this.outgoing.find((waiting) => waiting.key === message.key));
    },
    discard(message) {
      this.outgoing = this.outgoing.filter((waiting) => waiting.key !== message.key);
    },
    suggest(text) {
      this.draft = text;
      this.toBot = true;
      this.send();
    },
    enterKey(event) {
      // An input method's Enter chooses a word (Chinese, Japanese); it does not send.
      if (event.shiftKey || event.isComposing || event.keyCode === 229) return;
      event.preventDefault();
      this.send();
    },
    grow() {
      const box = this.$refs.text;
      if (!box) return;
      box.style.height = "auto";
      box.style.height = `${Math.min(box.scrollHeight, 200)}px`;
    },
    answer(message) {
      this.replyTo = message;
      this.$refs.text.focus();
    },
    mention(name) {
      this.draft += `${this.draft && !this.draft.endsWith(" ") ? " " : ""}@${name} `;
      this.$refs.text.focus();
    },
    choose(event) {
      this.addFiles(event.target.files);
      event.target.value = "";
    },
    drop(event) {
      this.dragging = false;
      this.addFiles(event.dataTransfer.files);
    },
    paste(event) {
      if (event.clipboardData.files.length) {
        event.preventDefault();
        this.addFiles(event.clipboardData.files);
      }
    },
    addFiles(list) {
      for (const file of list) {
        if (file.size > MAX_FILE_BYTES) this.notice = this.say("too_large_file", { name: file.name });
        else if (this.files.length >= MAX_FILES) this.notice = this.texts.too_many_files;
        else {
          const shown = /^image\/(png|jpeg|gif|webp)$/.test(file.type);
          this.files.push({ key: newKey(), file, preview: shown ? URL.createObjectURL(file) : "" });
        }
      }
      this.$refs.text.focus();
    },
    removeFile(index) {
      const [removed] = this.files.splice(index, 1);
      if (removed.preview) URL.revokeObjectURL(removed.preview);
    },
    // ---- speakers -------------------------------------------------------------------------
    speakAs(name) {
      this.speaker = name;
      this.choosing = false;
    },
    addSpeaker() {
      const name = this.newSpeaker.trim().normalize("NFC");
      if (!name) return;
      if (/[/\\#%?@"<>\p{C}]/u.test(name) || ["bot", "all"].includes(name.toLowerCase())) {
        this.notice = `${name}: / \\ # % ? @ " < > · bot · all`;
        return;
      }
      if (!this.people.includes(name)) this.speakers.push(name);
      this.newSpeaker = "";
      this.speakAs(name);
      this.$refs.text.focus();
    },
    closePopover(event) {
      if (this.choosing && !event.target.closest?.(".nk-speaker")) this.choosing = false;
    },
    // ---- looking --------------------------------------------------------------------------
    async stop() {
      await this.ask(`/rooms/${encodeURIComponent(this.room)}/stop`, { method: "POST" });
    },
    goTo(id) {
      const line = [...this.$el.querySelectorAll("[data-message-id]")].find((found) => found.dataset.messageId === id);
      if (!line) return;
      line.scrollIntoView({ block: "center", behavior: "smooth" });
      line.classList.remove("nk-flash");
      requestAnimationFrame(() => line.classList.add("nk-flash"));
    },
    scrolled() {
      const box = this.$refs.scroll;
      const near = box.scrollHeight - box.scrollTop - box.clientHeight < 80;
      // Only going up lets go of the end: growing content also moves it away for a moment.
      if (near) this.atBottom = true;
      else if (box.scrollTop < this.lastTop - 2) this.atBottom = false;
      this.lastTop = box.scrollTop;
    },
    // Pictures and opened code change the height long after their message came.
    stayAtEnd() {
      const box = this.$refs.scroll;
      if (box && this.atBottom) box.scrollTop = box.scrollHeight;
    },
    // Somebody who reads further up is not pulled away.
    follow() {
      if (this.atBottom) this.toBottom();
    },
    async toBottom(smooth = false) {
      this.atBottom = true;
      await nextTick();
      const box = this.$refs.scroll;
      box?.scrollTo({ top: box.scrollHeight, behavior: smooth ? "smooth" : "instant" });
    },
    escape() {
      this.shown = this.creating = this.replyTo = null;
      this.choosing = this.drawer = false;
    },
    nextTheme() {
      this.theme = { auto: "light", light: "dark", dark: "auto" }[this.theme];
    },
    watchConnection() {
      // The page's socket is made right after this component is.
      if (!window.socket) return void setTimeout(this.watchConnection, 50);
      window.socket.on("disconnect", () => (this.offline = true));
      window.socket.on("connect", () => {
        if (this.offline) this.resync();
        this.offline = false;
      });
    },
    // ---- words ----------------------------------------------------------------------------
    say(key, values = {}) {
      const all = { bot: this.bot.name, ...values };
      return this.texts[key].replace(/\{(\w+)\}/g, (_, name) => all[name]);
    },
    preview(message) {
      return plain(message.segments, this.texts).slice(0, 120);
    },
    system(message) {
      const [part] = message.segments;
      if (part?.type === "notice") {
        const key = `notice_${part.kind}`;
        return this.texts[key] ? this.say(key, { actor: part.actor, target: part.target || this.bot.name }) : part.kind;
      }
      return message.author === "system" ? plain(message.segments, this.texts) : "";
    },
    clock(time) {
      return new Date(time * 1000).toLocaleTimeString(this.language, { hour: "2-digit", minute: "2-digit" });
    },
    day(time) {
      const date = new Date(time * 1000);
      const today = new Date();
      const days = Math.round((new Date(today).setHours(0, 0, 0, 0) - new Date(date).setHours(0, 0, 0, 0)) / 864e5);
      if (days === 0) return this.texts.today;
      if (days === 1) return this.texts.yesterday;
      return date.toLocaleDateString(this.language, { weekday: "long", day: "numeric", month: "long", year: "numeric" });
    },
    async ask(path, options) {
      try {
        const answer = await fetch(this.api + path, options);
        if (answer.status === 401) return void location.reload();
        const found = await answer.json();
        if (answer.ok) return found;
        this.notice = found.error.message;
      } catch {
        this.notice = this.texts.offline;
      }
      return null;
    },
  },
};
