export declare const ms: {
    readonly dial: 15000;
    readonly answer: 30000;
    readonly streamSilence: 25000;
    readonly resyncAgain: 5000;
    readonly removePause: 100;
    readonly unavailable: 5000;
    readonly firstBackoff: 500;
    readonly maxBackoff: 30000;
    readonly ownDelay: 60000;
    readonly maxRequested: 3600000;
    readonly maxWait: 60000;
    readonly minHeartbeat: 1000;
    readonly maxLife: number;
    readonly renewAgain: 500;
};
export declare const now: () => number;
export declare function sleep(wait: number, signal?: AbortSignal): Promise<void>;
/** Returns a time that a program passes as the protocol writes it. Throws a TypeError. */
export declare function momentOf(name: string, value: string | Date | undefined): string | undefined;
