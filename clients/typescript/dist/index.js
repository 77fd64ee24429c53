export { Book, crc32 } from "./book.js";
export { Client } from "./client.js";
export { Decimal } from "./decimal.js";
export { BehindError, ConnectionError, ProtocolError, RuedaError } from "./errors.js";
export { IncompleteError } from "./history.js";
export { read } from "./json.js";
