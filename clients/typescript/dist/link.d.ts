import type { Connection } from "./connection.js";
import type { Engine } from "./engine.js";
import type * as wire from "./messages.js";
import { Sequences } from "./sequences.js";
import { Sets } from "./sets.js";
import { type Series } from "./subscriptions.js";
import type { Login } from "./tokens.js";
/** One connection. */
export declare class Link implements Connection {
    #private;
    readonly engine: Engine;
    readonly url: string;
    readonly sets: Sets;
    readonly sequences: Sequences;
    readonly scope: string[];
    access: string;
    ready: boolean;
    over: boolean;
    readonly abort: AbortController;
    constructor(engine: Engine, url: string, login: Login);
    /** Authenticates and handles messages until the connection ends. Returns what ended it. */
    run(signal: AbortSignal): Promise<Error>;
    /** Ends the connection. The first call says why. */
    end(err: Error): void;
    send(message: object): void;
    /** Enters live when nothing is missing any more. */
    settle(): void;
    /** Reports a refused identifier. */
    reject(r: {
        channel: string;
        instrument: string;
        reason: string;
        msg?: string;
        hint?: string;
    }, removed: boolean): void;
    /** Reports the refusal of a whole request for one series. */
    rejectSeries(s: Series, m: wire.Error): void;
}
