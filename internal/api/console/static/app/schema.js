// What the AsyncAPI document of the gateway says about a message.
import { base } from "./session.js";

let document;

// load returns the document, which is read once.
export function load() {
  document ??= fetch(`${base}/asyncapi.json`).then((r) => (r.ok ? r.json() : Promise.reject(new Error(`HTTP ${r.status}`))));
  document.catch(() => (document = undefined));
  return document;
}

const named = (doc, ref) => doc.components.schemas[ref.split("/").at(-1)];

// resolve follows references of a schema, and keeps its own description.
export function resolve(doc, schema) {
  const ref = schema?.$ref ?? schema?.allOf?.[0]?.$ref;
  if (!ref) return schema ?? {};
  const found = resolve(doc, named(doc, ref));
  return { ...found, ...(schema.description && { description: schema.description }) };
}

// schemaOf returns the schema of a message, undefined if there is none.
export function schemaOf(doc, message) {
  let best;
  for (const [name, schema] of Object.entries(doc.components.schemas)) {
    const p = schema.properties;
    if (!p || !(p.type?.const || p.action?.const)) continue;
    const fits = Object.entries(p).every(([member, s]) => s.const === undefined || !(member in message ? message[member] !== s.const : schema.required?.includes(member)));
    const key = p.type?.const ? "type" : "action";
    if (!fits || message[key] !== p[key].const) continue;
    const score = Object.keys(message).filter((m) => m in p).length;
    if (!best || score > best.score) best = { name, schema, score };
  }
  return best;
}

// actions returns the messages that a client may send: {action, schema}.
export function actions(doc) {
  return Object.entries(doc.components.schemas).flatMap(([name, schema]) => {
    const action = schema.properties?.action?.const;
    return action && !name.startsWith("Server") ? [{ action, schema }] : [];
  });
}

// problems returns what is wrong with a message of a client, as far as the schema says.
export function problems(doc, message, t) {
  if (typeof message !== "object" || message === null || Array.isArray(message)) return [t("A message is a JSON object.")];
  const known = actions(doc);
  const found = known.find((a) => a.action === message.action);
  if (!found) return [t("action is one of {0}.", known.map((a) => a.action).join(", "))];
  const list = [];
  const { properties, required = [] } = found.schema;
  for (const name of required) if (!(name in message)) list.push(t("{0} is missing.", name));
  for (const [name, value] of Object.entries(message)) {
    if (!properties[name]) {
      list.push(t("{0} is not a member of {1}.", name, message.action));
      continue;
    }
    const s = resolve(doc, properties[name]);
    if (s.enum && !s.enum.includes(value)) list.push(t("{0} is one of {1}.", name, s.enum.join(", ")));
    else if (s.type && !typeFits(s.type, value)) list.push(t("{0} is of type {1}.", name, [s.type].flat().join(", ")));
  }
  return list;
}

function typeFits(type, value) {
  return [type].flat().some((one) => {
    if (one === "array") return Array.isArray(value);
    if (one === "integer") return Number.isInteger(value);
    if (one === "null") return value === null;
    if (one === "object") return typeof value === "object" && value !== null && !Array.isArray(value);
    return typeof value === one;
  });
}
