// Where the time of a turn went, from the end of speech to the sound at the ear. No DOM here.

// As docs/events.md names them; the two between them and the ear are what only the browser knows.
const SERVER = ["endpoint", "asr", "queue", "prefill", "llm_first_token", "first_clause", "tts_first_audio", "playout"];
const LAST = ["first_clause", "tts_first_audio", "playout"]; // In this order before the end, whatever overlaps earlier.

/**
 * The stages of `turn` ({ timings, spans }, in ms) as [{ name, from, to }] in ms since the person stopped speaking (or
 * sent what they typed), and `total`, when the reply reached the ear (or was there to be read). `network` is what
 * the call measured ({ roundTripMs, playoutMs }), or null. Null if the server told nothing.
 */
export function stages(turn, network) {
  const spans = Object.keys(turn.spans ?? {}).length ? { ...turn.spans } : spansOf(turn.timings ?? {});
  const known = SERVER.filter((name) => isSpan(spans[name]));
  if (known.length === 0) return null;
  // Waiting and reading are parts of the time to the first token, shown for themselves.
  if (isSpan(spans.llm_first_token) && isSpan(spans.prefill)) spans.llm_first_token = [spans.prefill[1], spans.llm_first_token[1]];
  const way = (network?.roundTripMs ?? 0) / 2;
  const rows = known.map((name) => ({ name, from: spans[name][0] + way, to: Math.max(spans[name][1], spans[name][0]) + way }));
  const sent = Math.max(...rows.map(({ to }) => to));
  let total = sent;
  if (network?.roundTripMs !== undefined && network.roundTripMs !== null) {
    rows.unshift({ name: "network_up", from: 0, to: way });
    rows.push({ name: "network_down", from: sent, to: sent + way });
    total += way;
  }
  if (network?.playoutMs && isSpan(spans.playout)) {
    rows.push({ name: "ear", from: total, to: total + network.playoutMs });
    total += network.playoutMs;
  }
  return { rows, total, spoken: isSpan(spans.endpoint), heard: isSpan(spans.playout) };
}

const isSpan = (span) => Array.isArray(span) && span.length === 2 && span.every(Number.isFinite);

/** Of a server that tells lengths alone: the last stages end where the voice began, the others begin where they can. */
function spansOf(timings) {
  const has = (name) => Number.isFinite(timings[name]);
  const spans = {};
  const endpoint = has("endpoint") ? timings.endpoint : 0;
  if (has("endpoint")) spans.endpoint = [0, endpoint];
  if (has("asr")) spans.asr = [Math.max(0, endpoint - timings.asr), Math.max(endpoint, timings.asr)];
  let at = Math.max(endpoint, spans.asr?.[1] ?? 0);
  if (has("voice_to_voice")) {
    at = timings.voice_to_voice - LAST.filter(has).reduce((sum, name) => sum + timings[name], 0);
    if (has("llm_first_token")) spans.llm_first_token = [at - timings.llm_first_token, at];
  } else if (has("llm_first_token")) {
    spans.llm_first_token = [at, (at += timings.llm_first_token)];
  }
  for (const name of LAST.filter(has)) spans[name] = [at, (at += timings[name])];
  return spans;
}

/** The value that a share of `values` does not exceed (nearest rank); NaN of none. */
export function percentile(values, share) {
  const sorted = [...values].sort((one, other) => one - other);
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? NaN;
}
