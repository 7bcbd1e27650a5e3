// What a peer connection knows of its network, read out of RTCPeerConnection.getStats().

/** Keeps the counters of the last look, so that a figure is of the time since and not of the whole call. */
export class PeerStats {
  #before = { delay: 0, emitted: 0, played: 0, samples: 0 };

  /**
   * { roundTripMs, playoutMs, lost, packets }: null where the browser does not tell. `playoutMs` is from the arrival of
   * sound to the loudspeaker, as far as known; `lost` of `packets` are those of the reply's sound since the call began.
   */
  read(report) {
    const all = [...report.values()];
    const sound = all.find(({ type, kind }) => type === "inbound-rtp" && kind === "audio");
    const device = all.find(({ type }) => type === "media-playout");
    const before = this.#before;
    const now = {
      delay: sound?.jitterBufferDelay ?? 0,
      emitted: sound?.jitterBufferEmittedCount ?? 0,
      played: device?.totalPlayoutDelay ?? 0,
      samples: device?.totalSamplesCount ?? 0,
    };
    this.#before = now;
    const mean = (sum, count) => (count > 0 ? (1000 * sum) / count : null);
    const buffer = mean(now.delay - before.delay, now.emitted - before.emitted);
    const output = mean(now.played - before.played, now.samples - before.samples);
    return {
      roundTripMs: roundTrip(report, all),
      playoutMs: buffer === null ? null : buffer + (output ?? 0),
      lost: sound?.packetsLost ?? null,
      packets: sound ? (sound.packetsReceived ?? 0) + (sound.packetsLost ?? 0) : null,
    };
  }
}

function roundTrip(report, all) {
  const transport = all.find(({ type }) => type === "transport");
  const pair =
    report.get(transport?.selectedCandidatePairId) ??
    all.find(({ type, nominated, state }) => type === "candidate-pair" && nominated && state === "succeeded");
  const s = pair?.currentRoundTripTime ?? all.find(({ type }) => type === "remote-inbound-rtp")?.roundTripTime;
  return Number.isFinite(s) ? s * 1000 : null;
}
