// Prints REFERENCE.md, the reference of the package, which is made of its types and their comments:
//
//   node scripts/reference.mjs > REFERENCE.md

import { fileURLToPath } from "node:url";
import ts from "typescript";

const source = (name) => fileURLToPath(new URL(`../src/${name}`, import.meta.url));

const groups = [
  ["Clients", "index.ts", ["Client", "Options", "Subscriptions", "Overflow", "WebSocketConstructor", "WebSocketLike"]],
  ["Progress and health", "index.ts", ["Checkpoint", "State", "HealthReport", "InstrumentHealth"]],
  ["Market data", "index.ts", ["MarketEvent", "Header", "Trade", "Quote", "BookUpdate", "Level", "Status", "Figures", "Summary", "Bar"]],
  ["Other events", "index.ts", ["Event", "StateChange", "Recovered", "Lost", "BookInvalid", "Rejected", "Delayed", "Notice"]],
  ["Decimals and books", "index.ts", ["Decimal", "Book", "BookFault", "crc32"]],
  ["Requests", "index.ts", ["Range", "Rows", "Account", "Instrument"]],
  ["Tokens", "index.ts", ["Tokens", "TokenStore"]],
  ["Errors", "index.ts", ["RuedaError", "ConnectionError", "BehindError", "ProtocolError", "IncompleteError"]],
  ["Messages of the protocol", "index.ts", ["read", "DataMessage", "wire"]],
  ["Module @rueda/client/node", "node.ts", ["FileStore", "download", "DownloadOptions"]],
];
const internal = new Set(["eventOf"]); // a type of it is exported with the events

const program = ts.createProgram([source("index.ts"), source("node.ts")], {
  target: ts.ScriptTarget.ES2022,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  strict: true,
  types: ["node"],
});
const checker = program.getTypeChecker();

// exportsOf returns the exported symbols of a module by name.
function exportsOf(name) {
  const all = new Map();
  for (const symbol of checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(source(name))))) {
    all.set(symbol.name, symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol);
  }
  return all;
}

const documentation = (symbol) => ts.displayPartsToString(symbol.getDocumentationComment(checker));
const code = (text) => `\`\`\`ts\n${text}\n\`\`\``;

// declaration returns a declaration without its body, and without the indentation of its place.
function declaration(node) {
  const file = node.getSourceFile();
  const text = file.text.slice(node.getStart(file), node.body ? node.body.getStart(file) : node.getEnd()).trim();
  const indent = " ".repeat(file.getLineAndCharacterOfPosition(node.getStart(file)).character);
  return text.replaceAll(`\n${indent}`, "\n").replace(/^export /, "").replace(/^async \*?/, "").replace(/^\*/, "");
}

// isPublic reports whether a member is for programs. The name of an error and conversions are not.
const isPublic = (member) =>
  member.name && ts.isIdentifier(member.name) && !(ts.getCombinedModifierFlags(member) & (ts.ModifierFlags.Private | ts.ModifierFlags.Override));

// members returns the public constructor, properties and methods of a class.
function members(node) {
  return node.members.filter((m) => (ts.isConstructorDeclaration(m) ? !(ts.getCombinedModifierFlags(m) & ts.ModifierFlags.Private) : isPublic(m)));
}

function classText(symbol, node) {
  const clauses = (node.heritageClauses ?? []).map((c) => ` ${c.getText()}`).join("");
  const out = [code(`class ${symbol.name}${clauses}`), documentation(symbol)];
  for (const m of members(node)) {
    const own = ts.isConstructorDeclaration(m) ? checker.getSignatureFromDeclaration(m) : checker.getSymbolAtLocation(m.name);
    const name = ts.isConstructorDeclaration(m) ? `new ${symbol.name}` : `${symbol.name}.${m.name.getText()}`;
    out.push(`#### ${name}`, code(declaration(m)), documentation(own));
  }
  return out;
}

function textOf(name, symbol) {
  const [node] = symbol.declarations;
  const out = [`### ${name}`];
  if (ts.isClassDeclaration(node)) out.push(...classText(symbol, node));
  else if (ts.isSourceFile(node)) out.push("The types of all messages, as [the protocol](../../docs/protocol.md) describes them.");
  else out.push(code(declaration(node)), documentation(symbol));
  return out;
}

// undocumented returns what has no comment.
export function undocumented() {
  const out = [];
  for (const [, module, names] of groups) {
    for (const name of names) {
      const symbol = exportsOf(module).get(name);
      const [node] = symbol.declarations;
      if (!ts.isSourceFile(node) && !documentation(symbol)) out.push(name);
      if (!ts.isClassDeclaration(node)) continue;
      for (const m of members(node)) if (m.name && !documentation(checker.getSymbolAtLocation(m.name))) out.push(`${name}.${m.name.getText()}`);
    }
  }
  return out;
}

// unlisted returns what is exported and not in the reference.
export function unlisted() {
  const listed = new Set(groups.flatMap(([, , names]) => names));
  return ["index.ts", "node.ts"].flatMap((name) => [...exportsOf(name).keys()]).filter((name) => !listed.has(name) && !internal.has(name));
}

// reference returns the text of REFERENCE.md.
export function reference() {
  const parts = [
    "# Reference of the TypeScript client",
    "`scripts/reference.mjs` generates this page from the types and their comments.\n[README.md](README.md) is an introduction.",
  ];
  for (const [title, module, names] of groups) {
    parts.push(`## ${title}`);
    const all = exportsOf(module);
    for (const name of names) parts.push(...textOf(name, all.get(name)));
  }
  return parts.filter(Boolean).join("\n\n") + "\n";
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.stdout.write(reference());
