// Line icons, drawn here so that nothing is fetched from elsewhere.
import { h } from "vue";

const PATHS = {
  hash: "M9 4 7 20M17 4l-2 16M4 9h17M3 15h17",
  person: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM4.5 20.5a7.5 7.5 0 0 1 15 0",
  plus: "M12 5v14M5 12h14",
  menu: "M4 7h16M4 12h16M4 17h10",
  close: "M6 6l12 12M18 6 6 18",
  send: "M12 19V5M6 11l6-6 6 6",
  clip: "M20 11.5 11.8 19.7a5 5 0 0 1-7.1-7.1l8.5-8.5a3.4 3.4 0 0 1 4.8 4.8l-8.5 8.5a1.7 1.7 0 0 1-2.4-2.4l7.8-7.8",
  reply: "M10 8 5 13l5 5M5 13h9a5 5 0 0 1 5 5v1",
  code: "M8.5 7.5 4 12l4.5 4.5M15.5 7.5 20 12l-4.5 4.5",
  play: "M8 5.5v13l10.5-6.5Z",
  pause: "M7 5.5h3.4v13H7ZM13.6 5.5H17v13h-3.4Z",
  stop: "M7 7h10v10H7Z",
  down: "M12 5v14M6 13l6 6 6-6",
  file: "M13.5 3.5H7A1.5 1.5 0 0 0 5.5 5v14A1.5 1.5 0 0 0 7 20.5h10a1.5 1.5 0 0 0 1.5-1.5V8.5ZM13.5 3.5v5h5",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8ZM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M5.3 18.7l1.4-1.4M17.3 6.7l1.4-1.4",
  moon: "M20 14.2A8.2 8.2 0 0 1 9.8 4a8.2 8.2 0 1 0 10.2 10.2Z",
  auto: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM12 3v18M12 7.5l5.6-1M12 12h9M12 16.5l5.6 1",
  copy: "M9 9h10v11H9ZM5 15V4h10",
  check: "M5 12.5 10 17.5 19.5 7",
  warn: "M12 4 2.8 19.5h18.4ZM12 10v4.5M12 17.2v.1",
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18ZM12 7v5l3.2 2",
  gear: "M4 7h9M17 7h3M4 17h3M11 17h9M17 7a2 2 0 1 1-4 0 2 2 0 0 1 4 0ZM11 17a2 2 0 1 1-4 0 2 2 0 0 1 4 0Z",
  at: "M16 12a4 4 0 1 1-8 0 4 4 0 0 1 8 0Zm0 0v1.5a2.5 2.5 0 0 0 5 0V12a9 9 0 1 0-3.6 7.2",
};
const FILLED = new Set(["play", "pause", "stop"]);

export const NkIcon = {
  props: { name: { type: String, required: true }, size: { type: Number, default: 20 } },
  render() {
    return h(
      "svg",
      {
        width: this.size,
        height: this.size,
        viewBox: "0 0 24 24",
        fill: FILLED.has(this.name) ? "currentColor" : "none",
        stroke: "currentColor",
        "stroke-width": 1.8,
        "stroke-linecap": "round",
        "stroke-linejoin": "round",
        "aria-hidden": "true",
      },
      h("path", { d: PATHS[this.name] }),
    );
  },
};

// The same person has the same colour everywhere.
export const NkAvatar = {
  props: {
    name: { type: String, required: true },
    bot: { type: Boolean, default: false },
    size: { type: Number, default: 36 },
  },
  computed: {
    hue() {
      let hash = 7;
      for (const character of this.name) hash = (hash * 31 + character.codePointAt(0)) % 3600;
      return (hash * 47) % 360;
    },
    initial() {
      return [...this.name][0]?.toUpperCase() ?? "?";
    },
  },
  render() {
    const style = {
      width: `${this.size}px`,
      height: `${this.size}px`,
      fontSize: `${this.size * 0.42}px`,
      "--hue": this.hue,
    };
    if (!this.bot) return h("span", { class: "nk-avatar", style, "aria-hidden": "true" }, this.initial);
    const mark = h(
      "svg",
      { viewBox: "0 0 32 32", width: "60%", height: "60%", fill: "none", stroke: "currentColor" },
      h("path", { d: "M9 24V8l14 16V8", "stroke-width": 4, "stroke-linecap": "round", "stroke-linejoin": "round" }),
    );
    return h("span", { class: "nk-avatar nk-avatar-bot", style, "aria-hidden": "true" }, mark);
  },
};
