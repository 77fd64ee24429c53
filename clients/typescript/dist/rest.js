import { ConnectionError, ProtocolError, RuedaError, printable } from "./errors.js";
import { read } from "./json.js";
import { ms, sleep } from "./time.js";
import { bounded } from "./values.js";
const maxTries = 3;
const maxAnswer = 64 << 20; // bytes
const maxRefusal = 64 << 10; // of the text of an error
/** Requests of REST to one of several URLs. */
export class Rest {
    urls;
    fetcher;
    #at = 0;
    constructor(urls, fetcher) {
        this.urls = urls;
        this.fetcher = fetcher;
    }
    /** Returns the URL in use. */
    url() {
        return this.urls[this.#at % this.urls.length];
    }
    /** Makes the next URL the one in use. */
    next() {
        this.#at++;
    }
    /**
     * Sends a request and returns the data of its answer. It tries the next URL if one cannot be
     * reached, waits if the gateway asks for it, and renews a refused token once.
     */
    call(r, tokens) {
        return this.#repeat(r, tokens, async (base, access) => this.#read(base, r, access)).then(dataOf);
    }
    /** Sends a request as call does, and returns its answer, whose body is not read yet. */
    open(r, tokens) {
        return this.#repeat(r, tokens, (base, access) => this.#send(base, r, access, r.signal));
    }
    async #repeat(r, tokens, send) {
        for (let attempt = 1;; attempt++) {
            const access = tokens && (await tokens.get(r.signal)).access;
            try {
                return await this.#anywhere(r, (base) => send(base, access));
            }
            catch (err) {
                if (!(err instanceof RuedaError) || attempt === maxTries)
                    throw err;
                const later = err.reason === "rate_limited" || err.code === 503;
                if (access && err.code === 401 && attempt === 1)
                    tokens.invalidate(access);
                else if (later && r.method === "GET" && err.retryAfter <= ms.maxWait)
                    await sleep(Math.max(err.retryAfter, 100), r.signal);
                else
                    throw err;
            }
        }
    }
    // anywhere sends a request to the URL in use or, if it cannot be reached, to the next ones.
    async #anywhere(r, send) {
        for (let skip = 0;; skip++) {
            try {
                return await send(this.urls[(this.#at + skip) % this.urls.length]);
            }
            catch (err) {
                const answered = err instanceof RuedaError && err.code !== 503 && err.reason !== "";
                if (answered || r.signal?.aborted || skip === this.urls.length - 1)
                    throw err;
            }
        }
    }
    // read returns the text of a successful answer, in a bounded time.
    async #read(base, r, access) {
        const stop = new AbortController();
        const abort = () => stop.abort(r.signal?.reason);
        if (r.signal?.aborted)
            abort();
        r.signal?.addEventListener("abort", abort, { once: true });
        const timer = setTimeout(() => stop.abort(new ConnectionError(`no answer of ${r.path} in ${ms.answer / 1000} s`)), ms.answer);
        try {
            const { text, whole } = await textOf(await this.#send(base, r, access, stop.signal), maxAnswer);
            if (!whole)
                throw new ProtocolError(`the answer of ${r.path} is longer than 64 MiB`);
            return text;
        }
        catch (err) {
            if (r.signal?.aborted)
                throw err;
            if (stop.signal.aborted)
                throw stop.signal.reason;
            throw brokenOf(err, base);
        }
        finally {
            clearTimeout(timer);
            r.signal?.removeEventListener("abort", abort);
        }
    }
    // send sends a request, and returns a successful answer.
    async #send(base, r, access, signal) {
        const query = new URLSearchParams();
        for (const [name, value] of Object.entries(r.query ?? {}))
            if (value !== undefined)
                query.set(name, String(value));
        try {
            const response = await this.fetcher(base + r.path + (query.size ? `?${query}` : ""), {
                method: r.method,
                redirect: "manual", // another address gets no password and no token
                headers: { ...(r.body !== undefined && { "Content-Type": "application/json" }), ...(access && { Authorization: `Bearer ${access}` }) },
                ...(r.body !== undefined && { body: JSON.stringify(r.body) }),
                ...(signal && { signal }),
            });
            if (!response.ok)
                throw refusal(response, (await textOf(response, maxRefusal)).text);
            return response;
        }
        catch (err) {
            throw signal?.aborted ? err : brokenOf(err, base);
        }
    }
}
/**
 * Returns a ConnectionError for an error of the network, a TypeError with the cause if fetch refuses
 * the request, and any other error as it is.
 */
export function brokenOf(err, base = "") {
    if (err instanceof RuedaError || !(err instanceof Error))
        return err;
    const at = base && `${base}: `;
    if (isNetworkError(err))
        return new ConnectionError(`the connection broke: ${at}${textOfError(err, base)}`, { cause: err });
    if (!(err instanceof TypeError && err.cause instanceof Error))
        return err;
    return new TypeError(`${at}${err.message}: ${textOfError(err, base)}`, { cause: err.cause });
}
const { process, Deno } = globalThis;
const isNode = process?.versions?.node !== undefined && Deno === undefined;
// Codes of errors of the network: of the system, of undici, the parser of HTTP, TLS, certificates,
// and of Bun.
const networkCode = /^(E(CONN|PIPE|TIMEDOUT|HOST|NET|NOTFOUND|AI_)|UND_ERR_(?!INVALID)|HPE_|ERR_(SSL|TLS|HTTP2|STREAM)|Connection|FailedToOpen|Timeout)|CERT|SIGNATURE|ISSUER/;
const networkCalls = new Set(["connect", "getaddrinfo", "read", "write", "shutdown"]);
// isNetworkError reports whether fetch has failed because of the network: with a TypeError, as
// browsers do, or with an error that has one of the codes or system calls, itself or in its causes.
// In Node.js a TypeError without one is a mistake of the program.
function isNetworkError(err) {
    if (!(err instanceof Error))
        return false;
    if (err instanceof TypeError && !isNode)
        return true;
    const { code = "", syscall = "", errors = [] } = err;
    return networkCode.test(String(code)) || networkCalls.has(syscall) || [err.cause, ...errors].some(isNetworkError);
}
// textOfError returns the last cause of an error, and what to do if it is known.
function textOfError(err, base) {
    let last = err;
    while (last.cause instanceof Error)
        last = last.cause;
    const text = last.message || last.errors?.map((e) => e.message).join(", ") || last.code || String(last); // of several addresses
    if (last.code === "ECONNREFUSED")
        return `${text}. Is the gateway running there?`;
    if (last.code === "ERR_SSL_WRONG_VERSION_NUMBER" || last.code === "ERR_SSL_PACKET_LENGTH_TOO_LONG") {
        return `the server does not use TLS. For a gateway without TLS, write ${base.replace("https://", "http://")}`;
    }
    if (text === "bad port")
        return "bad port. Browsers and fetch block this port: start the gateway on another one";
    return text;
}
// textOf returns at most the first bytes of an answer, and whether they are the whole of it.
async function textOf(response, most) {
    const reader = response.body?.getReader();
    const decoder = new TextDecoder();
    let text = "";
    for (let length = 0; reader;) {
        const { done, value } = await reader.read();
        if (done)
            break;
        length += value.length;
        if (length > most) {
            await reader.cancel();
            return { text, whole: false };
        }
        text += decoder.decode(value, { stream: true });
    }
    return { text: text + decoder.decode(), whole: true };
}
// refusal returns the error of an answer. The constructor takes no texts of another type.
function refusal(response, text) {
    let e = {};
    try {
        e = JSON.parse(text).error ?? {};
    }
    catch {
        // Without a body, the status says what there is.
    }
    const retryAfter = bounded(Number(response.headers.get("Retry-After")) * 1000, ms.maxRequested);
    return new RuedaError({
        code: response.status, reason: e.reason ?? "", ...(e.msg && { msg: e.msg }), ...(e.hint && { hint: e.hint }),
        ...(e.request_id && { requestId: e.request_id }), retryAfter, details: detailsOf(e.details),
    });
}
// detailsOf returns what is wrong with fields of a request.
function detailsOf(rows) {
    if (!Array.isArray(rows))
        return [];
    return rows.map((row) => `${printable(row?.field)} ${printable(row?.msg)}`);
}
function dataOf(text) {
    let answer;
    try {
        answer = read(text);
    }
    catch (err) {
        throw new ProtocolError("the answer is not from a gateway", { cause: err });
    }
    if (answer?.success !== true)
        throw new ProtocolError("the answer is not from a gateway");
    return answer.data;
}
