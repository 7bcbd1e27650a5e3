// ICE candidates (RFC 8445) as they stand in a session description.

const LINE = /^a=candidate:\S+ \d+ (\S+) \d+ (\S+) (\d+) typ (\w+)/gim;

/** [{ protocol, address, type, hidden }]; `hidden`: only a name that the browser made up (RFC 8828), no address. */
export function candidates(sdp) {
  return [...sdp.matchAll(LINE)].map(([, protocol, address, , type]) => ({
    protocol: protocol.toLowerCase(),
    address,
    type,
    hidden: address.endsWith(".local"),
  }));
}

const PRIVATE = /^(10\.|127\.|169\.254\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.|::1$|f[cd]|fe[89ab])/i;

/** Whether `address` means something on its own network only. */
export const isPrivate = (address) => PRIVATE.test(address);

const LOCAL_NAME = /(^localhost|\.local|\.localhost|\.lan|\.home|\.home\.arpa|\.internal|\.test)$/i;

/** Whether the page of `hostname` seems to come over the internet. */
export function isPublicHost(hostname) {
  const name = hostname.replace(/^\[|\]$/g, "");
  if (/^[\d.]+$/.test(name) || name.includes(":")) return !isPrivate(name);
  return name.includes(".") && !LOCAL_NAME.test(name);
}

export const isLoopbackHost = (hostname) => /^(localhost|.*\.localhost|127\.[\d.]+|\[::1\])$/i.test(hostname);

/** "2 host, 1 srflx", for details; addresses stay out of what may be copied to others. */
export function kinds(list) {
  const counts = new Map();
  for (const { type, hidden, protocol } of list) {
    const kind = `${type}${protocol === "udp" ? "" : `/${protocol}`}${hidden ? " (.local)" : ""}`;
    counts.set(kind, (counts.get(kind) ?? 0) + 1);
  }
  return [...counts].map(([kind, count]) => `${count} ${kind}`).join(", ") || "-";
}

/** Once all candidates are known, or after `limitMs`: a server that does not answer must not hold up the rest. */
export function gathered(peer, limitMs) {
  if (peer.iceGatheringState === "complete") return Promise.resolve(true);
  return new Promise((resolve) => {
    setTimeout(() => resolve(false), limitMs);
    peer.addEventListener("icegatheringstatechange", () => {
      if (peer.iceGatheringState === "complete") resolve(true);
    });
  });
}
