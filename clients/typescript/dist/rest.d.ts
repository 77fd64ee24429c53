export interface Request {
    method: "GET" | "POST";
    path: string;
    query?: Record<string, string | number | undefined>;
    body?: unknown;
    signal?: AbortSignal | undefined;
}
/** The part of the token keeper that requests need. */
export interface Access {
    get(signal?: AbortSignal): Promise<{
        access: string;
    }>;
    invalidate(access: string): void;
}
/** Requests of REST to one of several URLs. */
export declare class Rest {
    #private;
    private readonly urls;
    private readonly fetcher;
    constructor(urls: string[], fetcher: typeof fetch);
    /** Returns the URL in use. */
    url(): string;
    /** Makes the next URL the one in use. */
    next(): void;
    /**
     * Sends a request and returns the data of its answer. It tries the next URL if one cannot be
     * reached, waits if the gateway asks for it, and renews a refused token once.
     */
    call(r: Request, tokens?: Access): Promise<unknown>;
    /** Sends a request as call does, and returns its answer, whose body is not read yet. */
    open(r: Request, tokens: Access): Promise<Response>;
}
/**
 * Returns a ConnectionError for an error of the network, a TypeError with the cause if fetch refuses
 * the request, and any other error as it is.
 */
export declare function brokenOf(err: unknown, base?: string): unknown;
