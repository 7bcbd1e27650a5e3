// The results as plain text, to be sent to whoever runs the server. No token, no password, no address of the person.

import { text } from "../strings.js";
import { verdict } from "./verdict.js";

export function report(groups, results, { running }) {
  const { code } = verdict(results, { running });
  const lines = [
    `Parley: ${text("check.title")}`,
    new Date().toISOString(),
    location.origin,
    navigator.userAgent,
    "",
    text(`verdict.${code}`),
  ];
  for (const { id: group, checks } of groups) {
    lines.push("", `${text(`group.${group}`)}:`);
    for (const { id } of checks) lines.push(...told(id, results.get(id)));
  }
  return `${lines.join("\n")}\n`;
}

function told(id, result) {
  if (!result) return [`- ${text(`check.${id}`)}: ${text("status.waiting")}`];
  const { status, code, values, details = {}, lines = [] } = result;
  // Names of devices may name their owner.
  const sentence = text(`check.${id}.${code}`, { ...values, name: "…" });
  const more = Object.entries(details).map(([name, value]) => `${name}=${value}`);
  return [
    `- [${status}] ${text(`check.${id}`)}: ${sentence}${more.length ? ` (${more.join("; ")})` : ""}`,
    ...lines.map((line) => `    [${line.status}] ${text(`check.${id}.${line.code}`, line.values)}`),
  ];
}
