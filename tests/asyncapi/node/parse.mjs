// Opens the document with the parser of AsyncAPI's own viewers, and prints what it has. It ends with
// status 1 if the document has an error.
import { readFileSync } from 'node:fs';
import { Parser } from '@asyncapi/parser';

const { document, diagnostics } = await new Parser().parse(readFileSync('asyncapi.json', 'utf8'));
const errors = diagnostics.filter((d) => d.severity === 0);
for (const d of errors) console.error(d.path.join('.'), d.message);
if (errors.length > 0 || document === undefined) process.exit(1);
console.log(`${document.allMessages().length} messages, ${document.allOperations().length} operations, ${document.allChannels().length} channel`);
