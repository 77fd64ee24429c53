export { Book, crc32 } from "./book.js";
export { Client } from "./client.js";
export { Decimal } from "./decimal.js";
export { BehindError, ConnectionError, IncompleteError, ProtocolError, RuedaError } from "./errors.js";
export { read } from "./json.js";
