"""Voice to voice: callers over real WebRTC ask spoken questions of a server in a process of its own."""
