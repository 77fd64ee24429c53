// A connection to the stream, for the pages about channels and messages.
import { token } from "./login.js";
import { t } from "./phrases.js";
import { make, mask } from "./text.js";

const mostFrames = 200;

// connect makes a form send its message on a connection, and show the messages of both directions.
export function connect(form, needsLogin) {
  const said = form.querySelector("output");
  const list = form.querySelector(".frames");
  const stop = form.querySelector(".stop");
  let socket;
  let waiting = []; // frames that the next painting shows

  function paint() {
    const rows = waiting.splice(0).slice(-mostFrames).map(([direction, text]) => {
      const row = make("li", { className: direction }, make("b", {}, direction === "sent" ? "> " : "< "), text);
      return row;
    });
    const atEnd = list.scrollTop + list.clientHeight >= list.scrollHeight - 40;
    list.append(...rows);
    while (list.children.length > mostFrames) list.firstElementChild.remove();
    list.hidden = false;
    if (atEnd) list.scrollTop = list.scrollHeight;
  }
  function show(direction, text) {
    if (waiting.push([direction, mask(text)]) === 1) requestAnimationFrame(paint);
  }
  function send(text) {
    socket.send(text);
    show("sent", text);
  }

  async function open() {
    const access = await token();
    const address = new URL(form.dataset.socket, location.href);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    socket = new WebSocket(address);
    const opened = new Promise((resolve, reject) => {
      socket.addEventListener("open", resolve, { once: true });
      socket.addEventListener("close", (event) => reject(new Error(`${event.code} ${event.reason}`)), { once: true });
    });
    socket.addEventListener("message", (event) => {
      if (event.data === '{"action":"ping"}') socket.send('{"action":"pong"}');
      show("received", event.data);
    });
    socket.addEventListener("close", (event) => {
      said.textContent = `${t("Closed")}: ${event.code} ${event.reason}`;
      socket = undefined;
      stop.hidden = true;
    });
    await opened;
    stop.hidden = false;
    send(JSON.stringify({ action: "auth_token", token: access }));
  }

  form.hidden = false;
  stop.addEventListener("click", () => socket?.close(1000));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (needsLogin(form)) return;
    try {
      if (!socket) {
        said.textContent = t("Connecting…");
        await open();
      }
      said.textContent = t("Connected");
      const text = form.message.value.trim();
      if (!/"auth_token"/.test(text)) send(text);
      else send(text.replace("YOUR_TOKEN", await token()));
    } catch (error) {
      said.textContent = error.message;
    }
  });
}
