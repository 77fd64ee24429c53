// Times in milliseconds.
export const ms = {
    dial: 15_000, // also until the answer to auth_token
    answer: 30_000, // of a request
    // An Alive mark comes every 15 s.
    streamSilence: 25_000,
    resyncAgain: 5_000,
    removePause: 100, // between two messages that remove identifiers
    unavailable: 5_000, // until an identifier is requested again
    firstBackoff: 500,
    maxBackoff: 30_000,
    ownDelay: 60_000, // how long after a connection broke off its messages may reach the gateway
    maxRequested: 3_600_000, // longest wait that a gateway may request
    maxWait: 60_000, // the same in the middle of a request
    minHeartbeat: 1_000, // whatever a gateway states, as the following ones
    maxLife: 10 * 365 * 86_400_000, // of a token
    renewAgain: 500, // between two renewals of a stream
};
// now is a clock that never goes back.
export const now = () => performance.now();
// sleep waits, or rejects when the signal is aborted.
export function sleep(wait, signal) {
    return new Promise((resolve, reject) => {
        const stop = () => {
            clearTimeout(timer);
            reject(signal?.reason);
        };
        const timer = setTimeout(() => {
            signal?.removeEventListener("abort", stop);
            resolve();
        }, Math.min(wait, 2 ** 31 - 1));
        if (signal?.aborted)
            stop();
        else
            signal?.addEventListener("abort", stop, { once: true });
    });
}
