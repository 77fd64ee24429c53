import { checkMembers } from "./values.js";
const names = [
    "username", "password", "otp", "tokens", "session", "strict", "queue", "overflow", "heartbeat", "insecure", "resume", "requireComplete",
    "WebSocket", "fetch",
];
// settingsOf checks options and completes them. Throws a TypeError.
export function settingsOf(options) {
    checkMembers("the options of a Client", options, names);
    const { username, password, session = `ts-${randomName()}`, queue = 1, overflow = "block", heartbeat = 1 } = options;
    const refuse = (name, right) => {
        throw new TypeError(`${name} is ${JSON.stringify(options[name])}: must be ${right}`);
    };
    if (!/^[A-Za-z0-9._-]{1,36}$/.test(session))
        refuse("session", "1 to 36 of A-Z a-z 0-9 . _ -");
    if (!Number.isInteger(queue) || queue < 1)
        refuse("queue", "a whole number above 0");
    if (!["conflate", "block", "drop"].includes(overflow))
        refuse("overflow", '"conflate", "block" or "drop"');
    if (typeof heartbeat !== "number" || !(heartbeat > 0))
        refuse("heartbeat", "a number of ms above 0");
    if (password && !username)
        throw new TypeError("a password without a username");
    const WebSocket = options.WebSocket ?? globalThis.WebSocket ?? packageWS();
    if (!WebSocket)
        throw new TypeError("this platform has no WebSocket, as Node.js before version 22: npm install ws, or pass the option WebSocket");
    return { ...options, session, WebSocket };
}
// packageWS returns the WebSocket of package ws, undefined if it is not installed. It is loaded at
// run time and only in Node.js, so that bundlers for browsers do not look for it.
function packageWS() {
    const { process } = globalThis;
    try {
        return process?.getBuiltinModule?.("module").createRequire(import.meta.url)("ws");
    }
    catch {
        return undefined;
    }
}
function randomName() {
    const bytes = crypto.getRandomValues(new Uint8Array(16));
    return [...bytes].map((b) => "abcdefghijklmnopqrstuvwxyz234567"[b & 31]).join("");
}
// parseURL checks the address of a gateway or of its stream, and returns it without a slash.
export function parseURL(text, insecure) {
    const refuse = (why) => {
        throw new TypeError(`${JSON.stringify(text)} is not the URL of a gateway: ${why}`);
    };
    if (typeof text !== "string" || !/^(http|ws)s?:\/\//i.test(text))
        return refuse("it begins with neither https:// nor http://");
    let u;
    try {
        u = new URL(text.replace(/^ws(s?):/i, "http$1:"));
    }
    catch {
        return refuse("its host or port is not valid");
    }
    if (u.username || u.password)
        return refuse("pass the user and the password as options");
    if (u.search)
        return refuse("it has a query");
    if (u.protocol === "http:" && !insecure && !isLoopback(u.hostname)) {
        throw new TypeError(`${text} would send the password unencrypted: use https, or set insecure`);
    }
    const path = u.pathname.replace(/\/+$/, "").replace(/\/stream$/, "").replace(/\/+$/, ""); // of a proxy
    const page = path.search(/\/(client|console|docs)(\/|$)/);
    if (page >= 0)
        throw new TypeError(`${JSON.stringify(text)} is the URL of a page. Write ${u.origin}${path.slice(0, page)}`);
    return u.origin + path;
}
function isLoopback(host) {
    return host === "localhost" || host === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(host);
}
