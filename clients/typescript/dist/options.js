// parseURL checks the address of a gateway or of its stream, and returns it without a slash.
export function parseURL(text, insecure) {
    let u;
    try {
        u = new URL(text.replace(/^ws(s?):/, "http$1:"));
    }
    catch {
        throw new TypeError(`${JSON.stringify(text)} is not the URL of a gateway, such as https://api.broker.example`);
    }
    if (!/^https?:$/.test(u.protocol) || u.username || u.password || u.search) {
        throw new TypeError(`${JSON.stringify(text)} is not the URL of a gateway, such as https://api.broker.example`);
    }
    if (u.protocol === "http:" && !insecure && !isLoopback(u.hostname)) {
        throw new TypeError(`${text} would send the password unencrypted: use https, or set insecure`);
    }
    return u.origin + u.pathname.replace(/\/+$/, "").replace(/\/stream$/, "").replace(/\/+$/, "");
}
function isLoopback(host) {
    return host === "localhost" || host === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(host);
}
