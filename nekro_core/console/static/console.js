// Ctrl-K opens the search.
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
    event.preventDefault();
    document.querySelector(".nc-find-button")?.click();
  }
});
// A wide table scrolls in its frame, which the keyboard must reach.
new MutationObserver(() => {
  for (const frame of document.querySelectorAll(".q-table__middle:not([tabindex])")) frame.tabIndex = 0;
  // Quasar's bar of network requests has no name, and says nothing that a person needs to hear.
  for (const bar of document.querySelectorAll(".q-loading-bar:not([aria-hidden])")) bar.setAttribute("aria-hidden", "true");
}).observe(document, { childList: true, subtree: true });
// Copies a text; returns whether it could. Pages that are not served over HTTPS have no navigator.clipboard.
async function copyText(text) {
  try {
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(text);
      return true;
    }
  } catch { /* the other way is tried */ }
  const area = document.createElement("textarea");
  area.value = text;
  (document.querySelector(".q-dialog") || document.body).append(area);
  area.select();
  try { return document.execCommand("copy"); } finally { area.remove(); }
}
// Says that the connection is lost. If the login has ended, the page is loaded again, so that the person can log in.
let ticksOffline = 0;
setInterval(async () => {
  const lost = Boolean(window.socket && window.did_handshake && !window.socket.connected);
  ticksOffline = lost ? ticksOffline + 1 : 0;
  document.documentElement.classList.toggle("nc-is-offline", ticksOffline > 1);
  if (ticksOffline % 3 !== 2) return;
  try {
    const answer = await fetch("/api/v1/operator/people/myself", { cache: "no-store" });
    if (answer.status === 401) location.reload();
  } catch { /* the bot does not answer yet */ }
}, 1000);
// The bot keeps a page for some seconds when its connection breaks. One that was left need not wait.
addEventListener("pagehide", () => window.emitEvent?.("page_left"));
// A new message in a chat's history is scrolled into view, unless the person reads further up.
new MutationObserver((changes) => {
  for (const { target, addedNodes } of changes) {
    const history = addedNodes.length && target.matches?.(".nc-chat-history > .nc-list") && target.parentElement;
    if (history && history.scrollHeight - history.scrollTop - history.clientHeight < 500) history.scrollTop = history.scrollHeight;
  }
}).observe(document, { childList: true, subtree: true });
// A picture at the end of a chat's history gets its height when it is loaded; the end stays in view.
document.addEventListener('load', (event) => {
  const history = event.target.closest?.('.nc-chat-history');
  const below = history ? history.scrollHeight - history.scrollTop - history.clientHeight : 0;
  if (history && below < event.target.offsetHeight + 80) history.scrollTop = history.scrollHeight;
}, true);
