// What all the results come to: the one thing to know first.

const failed = (result) => result?.status === "fail";

/**
 * { mood: "running" | "good" | "note" | "bad", code }. What stops a call counts before what spoils it, and what lies
 * nearest to its cause before what follows from it.
 */
export function verdict(results, { running }) {
  const [secure, browser, server, ready, webrtc, socket, microphone, level, playback, speaker] = [
    "secure", "browser", "server", "ready", "webrtc", "socket", "microphone", "level", "playback", "speaker",
  ].map((id) => results.get(id));
  const bad = (code) => ({ mood: "bad", code });
  if (failed(server)) return bad(server.code === "wrong_token" ? "token" : "server");
  if ([ready, webrtc].some((result) => result?.code === "gone")) return bad("server");
  if (failed(browser)) return bad("browser");
  if (failed(secure)) return bad("secure");
  if (failed(ready)) return bad("ready");
  if (failed(webrtc) && failed(socket)) return bad("no_way");
  if (failed(microphone) || failed(level)) return bad("microphone");
  if (failed(playback) || failed(speaker)) return bad("speaker");
  if (running) return { mood: "running", code: "running" };
  if (failed(webrtc)) return { mood: "note", code: "by_socket" };
  if (!speaker) return { mood: "good", code: "half" };
  if (failed(socket)) return { mood: "note", code: "no_socket" };
  const noted = [...results.values()].some(({ status }) => status === "note" || status === "fail");
  return noted ? { mood: "note", code: "noted" } : { mood: "good", code: "good" };
}
