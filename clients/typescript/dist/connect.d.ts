import { type Engine } from "./engine.js";
/** Keeps a stream connected. */
export declare class Connector {
    #private;
    private readonly engine;
    constructor(engine: Engine);
    /**
     * Keeps the stream connected until the signal is aborted. Throws the error of a connection after
     * which another attempt cannot help.
     */
    run(signal: AbortSignal): Promise<void>;
}
