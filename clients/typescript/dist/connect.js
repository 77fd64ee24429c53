import { nothing } from "./engine.js";
import { BehindError, ConnectionError, RuedaError, mayHelp } from "./errors.js";
import { Link } from "./link.js";
import { ms, now, sleep } from "./time.js";
/** Keeps a stream connected. */
export class Connector {
    engine;
    #broke = -Infinity; // when a connection ended that the gateway has not closed
    constructor(engine) {
        this.engine = engine;
    }
    /**
     * Keeps the stream connected until the signal is aborted. Throws the error of a connection after
     * which another attempt cannot help.
     */
    async run(signal) {
        const { engine } = this;
        for (;;) {
            const url = engine.rest.url();
            const err = await this.#connect(url, signal);
            engine.disconnected();
            if (signal.aborted)
                return engine.enter("idle", url);
            const own = this.#replacedByOwn(err);
            if (!own && !mayHelp(err)) {
                engine.enter("closed", url, err);
                throw err;
            }
            if (err instanceof BehindError) {
                engine.enter("waiting", url, err, 0);
                await engine.queue.space(signal);
            }
            else {
                const wait = this.#pause(err);
                engine.enter("waiting", url, err, wait);
                engine.rest.next();
                await sleep(wait, signal).catch(() => undefined);
            }
            if (signal.aborted)
                return engine.enter("idle", url);
        }
    }
    // replacedByOwn notes how a connection ended. It reports whether an earlier connection of this
    // client may have taken over the session: it broke off, and the network delivered its token late.
    #replacedByOwn(err) {
        const broke = this.#broke;
        const closed = err instanceof RuedaError && err.closed;
        this.#broke = closed ? -Infinity : now();
        return closed && err.reason === "replaced" && now() - broke < ms.ownDelay;
    }
    // pause returns how many ms to wait before the next attempt: as the gateway has asked, or a random
    // part of a bound that doubles. So clients of a gateway that was down do not all come at once.
    #pause(err) {
        const { engine } = this;
        const asked = engine.reconnectAt - now();
        engine.reconnectAt = 0;
        if (asked > 0)
            return Math.ceil(asked);
        engine.bound = Math.min(Math.max(2 * engine.bound, ms.firstBackoff), ms.maxBackoff);
        return Math.round(Math.random() * engine.bound) + (err instanceof RuedaError ? err.retryAfter : 0);
    }
    // connect makes one connection and returns what ended it.
    async #connect(url, signal) {
        const { engine } = this;
        engine.enter("connecting", url);
        try {
            const login = await engine.tokens.get(signal);
            const link = new Link(engine, url, login);
            engine.changed = () => link.sets.reconcile();
            const err = await link.run(signal);
            if (err instanceof RuedaError && (err.reason === "invalid_token" || err.reason === "token_expired")) {
                engine.tokens.invalidate(link.access);
            }
            return at(url, err);
        }
        catch (err) {
            return at(url, err instanceof Error ? err : new Error(String(err)));
        }
        finally {
            engine.changed = nothing;
        }
    }
}
// at adds the URL to an error of a connection.
function at(url, err) {
    if (!(err instanceof ConnectionError) || err instanceof BehindError || err.message.includes(url))
        return err;
    return new ConnectionError(`${url}: ${err.message}`, { cause: err.cause });
}
