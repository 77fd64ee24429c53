import { ProtocolError, RuedaError, mayHelp } from "./errors.js";
import { ms, now } from "./time.js";
import { bounded, members } from "./values.js";
/**
 * Has the tokens of a client and renews them at 80 % of the life of the access token. All who need
 * a token at the same time share one request.
 */
export class TokenKeeper {
    rest;
    options;
    warn;
    #state;
    #renewAt = 0;
    #tried = -Infinity; // the last attempt
    #loaded = false;
    #renewal;
    constructor(rest, options, warn) {
        this.rest = rest;
        this.options = options;
        this.warn = warn;
    }
    /** Returns a valid access token. */
    get(signal) {
        if (this.#state?.tokens.access_token && now() < this.#renewAt)
            return Promise.resolve(loginOf(this.#state.tokens));
        this.#renewal ??= this.#renew().finally(() => (this.#renewal = undefined));
        return abortable(this.#renewal, signal);
    }
    /** How long a stream waits before the next renewal, in ms. */
    untilRenewal() {
        return Math.max(this.#renewAt, this.#tried + ms.renewAgain) - now();
    }
    /** Makes get renew the tokens no later than after a time. */
    renewWithin(wait) {
        this.#renewAt = Math.min(this.#renewAt, now() + wait);
    }
    /** Discards an access token that the gateway has refused. */
    invalidate(access) {
        if (this.#state?.tokens.access_token !== access)
            return;
        this.#state = { tokens: { ...this.#state.tokens, access_token: "" }, expires: 0 };
        this.#renewAt = 0;
    }
    /** Ends the login of the client or, if the client has not used it yet, of the store. */
    async end() {
        await this.#renewal?.catch(() => undefined); // it must not store tokens afterwards
        await this.#load();
        const token = this.#state?.tokens.refresh_token;
        if (!token)
            return;
        await this.rest.call({ method: "POST", path: "/auth/revoke", body: { token } });
        this.#state = undefined;
        this.#renewAt = 0;
        await this.options.tokens?.save(undefined);
    }
    async #renew() {
        await this.#load();
        const old = this.#state;
        if (old?.tokens.access_token && now() < this.#renewAt)
            return loginOf(old.tokens); // from the store
        const began = now();
        try {
            const { tokens, life } = await this.#request(old?.tokens.refresh_token);
            const stored = await this.#save(tokens, old?.tokens);
            this.#state = { tokens: stored, expires: began + life };
            this.#renewAt = began + life * (0.8 + Math.random() / 20);
            return loginOf(stored);
        }
        catch (err) {
            if (!old?.tokens.access_token || now() >= old.expires || !mayHelp(err))
                throw err;
            this.#renewAt = now() + Math.max((old.expires - now()) / 10, 1000);
            return loginOf(old.tokens); // valid for some time
        }
        finally {
            this.#tried = now();
        }
    }
    // load reads the stored tokens, once. An access token with little of its life left is not used.
    async #load() {
        if (this.#loaded || !this.options.tokens)
            return;
        let tokens;
        try {
            tokens = await this.options.tokens.load();
        }
        catch (err) {
            if (!this.options.password)
                throw err;
            this.warn("tokens_not_loaded", err);
        }
        this.#loaded = true;
        if (!tokens)
            return;
        const rest = Date.parse(tokens.expires) - Date.now() || 0;
        this.#state = { tokens, expires: now() + rest };
        if (rest > 60_000)
            this.#renewAt = now() + rest / 2;
    }
    // save stores tokens. A refresh token that could not be stored is not used: the one before it
    // stays valid.
    async #save(fresh, old) {
        try {
            await this.options.tokens?.save(fresh);
            return fresh;
        }
        catch (err) {
            this.warn("tokens_not_stored", err);
            return { ...fresh, refresh_token: old?.refresh_token ?? "", refresh_expires: old?.refresh_expires ?? fresh.expires };
        }
    }
    // request asks for tokens with the refresh token or, without a valid one, with the password.
    async #request(refresh) {
        const { username, password, otp } = this.options;
        if (refresh) {
            try {
                return await this.#grant({ grant_type: "refresh_token", refresh_token: refresh });
            }
            catch (err) {
                if (!password || !(err instanceof RuedaError) || err.code !== 401)
                    throw err;
            }
        }
        if (!password)
            throw new RuedaError({ code: 401, reason: "invalid_credentials", msg: "there is no password and no stored token" });
        const login = { grant_type: "password", username, password };
        try {
            return await this.#grant(login);
        }
        catch (err) {
            if (!otp || !(err instanceof RuedaError) || err.reason !== "mfa_required")
                throw err;
            return this.#grant({ ...login, otp: await otp() });
        }
    }
    // grant requests tokens. Times count from before the request, so that the clock of the gateway
    // does not matter.
    async #grant(body) {
        const began = Date.now();
        const data = members(await this.rest.call({ method: "POST", path: "/auth/token", body }));
        const { access_token, expires_in, refresh_token, refresh_expires_in, scope = "" } = data;
        if (!isToken(access_token) || !isToken(refresh_token) || typeof expires_in !== "number" || typeof refresh_expires_in !== "number" || typeof scope !== "string") {
            throw new ProtocolError("the answer to a login has no tokens");
        }
        const life = bounded(expires_in * 1000, ms.maxLife);
        const at = (ahead) => new Date(began + ahead).toISOString();
        const tokens = { access_token, expires: at(life), refresh_token, refresh_expires: at(bounded(refresh_expires_in * 1000, ms.maxLife)), scope };
        return { tokens, life };
    }
}
// isToken reports whether a value is a text that a header can have.
const isToken = (value) => typeof value === "string" && /^[\x21-\x7e]+$/.test(value);
const loginOf = (t) => ({ access: t.access_token, scope: t.scope.split(" ") });
// abortable leaves a promise when the signal is aborted. The work goes on, for others.
function abortable(work, signal) {
    if (!signal)
        return work;
    return new Promise((resolve, reject) => {
        const stop = () => reject(signal.reason);
        if (signal.aborted)
            stop();
        signal.addEventListener("abort", stop, { once: true });
        work.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
    });
}
