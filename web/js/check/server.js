// Whether the server answers, takes our token, and has its models ready.

import { Problem } from "../problem.js";
import { configuration } from "../server.js";

export async function server(world) {
  const began = performance.now();
  try {
    world.config = await configuration();
  } catch (error) {
    if (!(error instanceof Problem)) throw error;
    return { status: "fail", code: error.code };
  }
  const took = Math.round(performance.now() - began);
  const { version = "", models = {} } = world.config;
  const details = { version: version || "-", answered: `${took} ms`, ASR: models.asr, LLM: models.llm, TTS: models.tts };
  return { status: "ok", code: version ? "ok" : "ok_unnamed", values: { version, took }, details };
}

export async function ready(world) {
  if (!world.config) return { status: "skip", code: "unknown" };
  const response = await fetch("readyz", { cache: "no-store" }).catch(() => null);
  const { stages = {} } = (await response?.json().catch(() => null)) ?? {};
  if (response?.ok) return { status: "ok", code: "ok", details: { stages: Object.keys(stages).join(", ") || "-" } };
  const missing = Object.keys(stages).filter((name) => !stages[name]);
  if (response === null) return { status: "fail", code: "gone" };
  if (missing.length === 0) return { status: "fail", code: "unknown_stage" };
  return { status: "fail", code: "loading", values: { stages: missing.join(", ") } };
}
