import type { Overflow } from "./queue.js";
import type { TokenStore } from "./store.js";
/**
 * What a program has processed. Stored as JSON, it lets a later run of the program continue without
 * a loss: see Options.resume.
 */
export interface Checkpoint {
    epoch: string;
    position: string;
    /** Newest n by series: "trades GGAL|BYMA|24hs". */
    sequences: Record<string, number>;
}
/** A constructor of WebSockets, as browsers and Node 22 have it. */
export type WebSocketConstructor = new (url: string) => WebSocketLike;
/** The part of a WebSocket that the client uses. */
export interface WebSocketLike {
    onopen: ((event: never) => void) | null;
    onmessage: ((event: never) => void) | null;
    onclose: ((event: never) => void) | null;
    onerror: ((event: never) => void) | null;
    send(text: string): void;
    close(code?: number, reason?: string): void;
}
/** Options of a Client. */
export interface Options {
    /** Name of the user, for a login. */
    username?: string;
    /** Password of the user, for a login. */
    password?: string;
    /** Returns a one-time password when a login needs one. Without it such logins fail. */
    otp?: () => string | Promise<string>;
    /**
     * Keeps the tokens between runs of the program, as FileStore of @rueda/client/node does. By
     * default they are in memory. With stored tokens, no password is needed.
     */
    tokens?: TokenStore;
    /**
     * Name of the connection, of 1 to 36 of A-Z a-z 0-9 . _ -. A client that connects takes over the
     * connection with its name. By default a random one.
     */
    session?: string;
    /** Asks the gateway to close a connection that reads too slowly, instead of conflating. */
    strict?: boolean;
    /** How many events may wait for the program. By default 8,192. */
    queue?: number;
    /** What happens to more. By default "conflate". */
    overflow?: Overflow;
    /**
     * How long the connection may be silent, in ms. The client then sends a ping, and reconnects if
     * nothing arrives in the same time again. By default half of the gateway's interval of pings.
     */
    heartbeat?: number;
    /** Allows http:// to other machines, which sends passwords and tokens unencrypted. */
    insecure?: boolean;
    /** Continues where an earlier client stopped. By default only new data comes. */
    resume?: Checkpoint | undefined;
    /** True: rows of history that are lost are an IncompleteError. By default the client warns. */
    requireComplete?: boolean;
    /** By default that of the platform or, in Node.js before version 22, of package ws. */
    WebSocket?: WebSocketConstructor;
    /** By default that of the platform. */
    fetch?: typeof fetch;
}
/** Options that were checked, with what the platform has. */
export type Settings = Options & {
    session: string;
    WebSocket: WebSocketConstructor;
};
export declare function settingsOf(options: Options): Settings;
export declare function parseURL(text: string, insecure: boolean): string;
