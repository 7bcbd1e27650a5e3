// Every sentence of the page, in both languages. Keys of problems are `<code>.title` and `<code>.text`.

const en = {
  skip: "Skip to the text box",
  language: "Language",
  stage: "Call",
  conversation: "Conversation",
  transcript: "Transcript",
  message: "Type a message",
  send: "Send",
  talk: "Talk",
  talkAgain: "Talk again",
  cancel: "Cancel",
  end: "End",
  stop: "Stop the reply",
  stopTitle: "Stop the reply (Esc)",
  mute: "Mute the microphone",
  unmute: "Unmute the microphone",
  useMicrophone: "Turn the microphone on",
  tapToHear: "Tap to hear the reply",
  empty: "What you both say appears here. Words turn solid as you hear them.",
  you: "You",
  parley: "Parley",
  notice: "Notice",
  unheard: "not heard:",
  interrupted: "interrupted",
  failed: "reply failed",
  notUnderstood: "Not understood",
  newCall: "New call",
  listeningDots: "speaking",
  answered: "Answered in {time}",
  "state.idle": "Ready when you are",
  "state.permission": "Allow the microphone",
  "state.connecting": "Connecting…",
  "state.listening": "Listening",
  "state.hearing": "Hearing you",
  "state.thinking": "Thinking",
  "state.speaking": "Speaking",
  "state.ended": "Call ended",
  "state.muted": "Muted",
  "state.typing": "Ready for your message",
  "hint.idle": "Press Talk and speak, or type below.",
  "hint.permission": "Your browser asks whether this page may listen.",
  "hint.connecting": "This takes a moment.",
  "hint.listening": "Go ahead, just speak.",
  "hint.hearing": "",
  "hint.thinking": "",
  "hint.speaking": "Speak up to interrupt.",
  "hint.speaking.keys": "Speak up to interrupt, or press Esc.",
  "hint.ended": "Talk again whenever you like.",
  "hint.muted": "It cannot hear you. You can still type.",
  "hint.typing": "Replies are spoken and shown.",
  "timing.endpoint": "pause",
  "timing.asr": "hearing",
  "timing.llm_first_token": "first word",
  "timing.first_clause": "first clause",
  "timing.tts_first_audio": "voice",
  "action.retry": "Try again",
  "action.type": "Type instead",
  "action.reload": "Reload the page",
  "action.reconnect": "Reconnect",
  "action.dismiss": "Dismiss",
  "action.useToken": "Connect",
  token: "Access token",
  "microphone_denied.title": "The microphone is blocked",
  "microphone_denied.text": "Allow it in the browser’s address bar (the icon left of the address) and try again, or type instead.",
  "microphone_missing.title": "No microphone found",
  "microphone_missing.text": "Plug one in, or check that the system sees it, and try again. You can also type.",
  "microphone_busy.title": "The microphone cannot be opened",
  "microphone_busy.text": "Another program may hold it. Close that program and try again, or type instead.",
  "microphone_lost.title": "The microphone went away",
  "microphone_lost.text": "It was unplugged or taken. Connect it and try again; the call goes on, and you can type.",
  "insecure_context.title": "This address is not secure",
  "insecure_context.text": "Browsers give the microphone only to https pages and to localhost. Open Parley at one of those, or type instead.",
  "unsupported.title": "This browser cannot make calls",
  "unsupported.text": "It lacks WebRTC, or it is switched off. A current Chrome, Edge, Firefox or Safari will do.",
  "no_connection.title": "No sound connection",
  "no_connection.text": "The server answered, but audio packets (UDP) do not get through. A firewall, VPN or tunnel may block them; try another network.",
  "connection_lost.title": "The call dropped",
  "connection_lost.text": "The connection to the server was lost. What was said stays here.",
  "server_unreachable.title": "The server does not answer",
  "server_unreachable.text": "Check that Parley is running and that you are on its network, then try again.",
  "server_closed.title": "The server ended the call",
  "server_closed.text": "It may be restarting. Try again in a moment.",
  "idle.title": "The call ended after a long silence",
  "idle.text": "Nobody spoke for a while. What was said stays here.",
  "session_limit.title": "All lines are busy",
  "session_limit.text": "The server holds as many calls as it may. Try again soon.",
  "too_busy.title": "The server is busy",
  "too_busy.text": "It cannot take another call right now. Try again in a few seconds.",
  "wrong_token.title": "This server wants a token",
  "wrong_token.text": "It was printed when the server started: open the address shown there, or paste the token here.",
  "wrong_origin.title": "This page may not call the server",
  "wrong_origin.text": "Open the address that the server printed, or add this page’s address to server.allowed_origins.",
  "server_error.title": "The server could not take the call",
  "server_error.text": "Its log says why. Try again; if it keeps failing, restart it.",
  "session_trouble.title": "Something went wrong in the call",
  "session_trouble.text": "The call goes on. Say it again, or type.",
};

const zh = {
  skip: "跳到输入框",
  language: "语言",
  stage: "通话",
  conversation: "对话",
  transcript: "对话记录",
  message: "输入消息",
  send: "发送",
  talk: "开始对话",
  talkAgain: "再次对话",
  cancel: "取消",
  end: "结束",
  stop: "停止回答",
  stopTitle: "停止回答（Esc）",
  mute: "麦克风静音",
  unmute: "取消静音",
  useMicrophone: "打开麦克风",
  tapToHear: "点按以收听回答",
  empty: "双方的话会显示在这里。文字随声音播放而变实。",
  you: "你",
  parley: "Parley",
  notice: "提示",
  unheard: "未听到：",
  interrupted: "已打断",
  failed: "回答失败",
  notUnderstood: "没听清",
  newCall: "新的通话",
  listeningDots: "正在说话",
  answered: "{time} 后回答",
  "state.idle": "随时可以开始",
  "state.permission": "请允许使用麦克风",
  "state.connecting": "正在连接…",
  "state.listening": "正在聆听",
  "state.hearing": "听到你了",
  "state.thinking": "正在思考",
  "state.speaking": "正在回答",
  "state.ended": "通话已结束",
  "state.muted": "已静音",
  "state.typing": "等待你的消息",
  "hint.idle": "按下“开始对话”后直接说话，或在下方输入。",
  "hint.permission": "浏览器会询问是否允许本页面使用麦克风。",
  "hint.connecting": "请稍候。",
  "hint.listening": "请说话。",
  "hint.hearing": "",
  "hint.thinking": "",
  "hint.speaking": "开口即可打断。",
  "hint.speaking.keys": "开口即可打断，也可按 Esc。",
  "hint.ended": "随时可以再次对话。",
  "hint.muted": "现在听不到你，但仍可输入文字。",
  "hint.typing": "回答会朗读并显示出来。",
  "timing.endpoint": "停顿",
  "timing.asr": "识别",
  "timing.llm_first_token": "首字",
  "timing.first_clause": "首句",
  "timing.tts_first_audio": "合成",
  "action.retry": "重试",
  "action.type": "改为输入",
  "action.reload": "重新加载页面",
  "action.reconnect": "重新连接",
  "action.dismiss": "关闭",
  "action.useToken": "连接",
  token: "访问令牌",
  "microphone_denied.title": "麦克风被禁止",
  "microphone_denied.text": "请在浏览器地址栏（网址左侧的图标）中允许麦克风，然后重试；也可以改为输入。",
  "microphone_missing.title": "找不到麦克风",
  "microphone_missing.text": "请插入麦克风或检查系统能否识别，然后重试；也可以输入文字。",
  "microphone_busy.title": "无法打开麦克风",
  "microphone_busy.text": "可能被其他程序占用。请关闭该程序后重试，或改为输入。",
  "microphone_lost.title": "麦克风已断开",
  "microphone_lost.text": "麦克风被拔出或占用。请重新连接后重试；通话仍在继续，也可以输入。",
  "insecure_context.title": "此地址不安全",
  "insecure_context.text": "浏览器只允许 https 页面和 localhost 使用麦克风。请改用这样的地址，或改为输入。",
  "unsupported.title": "此浏览器无法通话",
  "unsupported.text": "缺少 WebRTC 或已被关闭。请使用新版 Chrome、Edge、Firefox 或 Safari。",
  "no_connection.title": "无法建立声音连接",
  "no_connection.text": "服务器有回应，但音频数据（UDP）无法通过。可能被防火墙、VPN 或隧道阻挡，请换一个网络再试。",
  "connection_lost.title": "通话中断",
  "connection_lost.text": "与服务器的连接已断开。对话内容仍保留在这里。",
  "server_unreachable.title": "服务器没有回应",
  "server_unreachable.text": "请确认 Parley 正在运行，并且你在同一网络中，然后重试。",
  "server_closed.title": "服务器结束了通话",
  "server_closed.text": "它可能正在重启，请稍后再试。",
  "idle.title": "长时间无人说话，通话已结束",
  "idle.text": "对话内容仍保留在这里。",
  "session_limit.title": "线路已满",
  "session_limit.text": "服务器的通话数已达上限，请稍后再试。",
  "too_busy.title": "服务器繁忙",
  "too_busy.text": "暂时无法接听新的通话，请几秒后再试。",
  "wrong_token.title": "服务器需要令牌",
  "wrong_token.text": "令牌在服务器启动时显示：请打开当时显示的地址，或把令牌粘贴到这里。",
  "wrong_origin.title": "此页面不能呼叫服务器",
  "wrong_origin.text": "请打开服务器显示的地址，或把本页地址加入 server.allowed_origins。",
  "server_error.title": "服务器无法接听",
  "server_error.text": "原因见服务器日志。请重试；若一直失败，请重启服务器。",
  "session_trouble.title": "通话中出了点问题",
  "session_trouble.text": "通话仍在继续。请再说一遍，或输入文字。",
};

const tables = { en, zh };
const STORED = "parley.language";

function preferred() {
  let stored = null;
  try {
    stored = localStorage.getItem(STORED);
  } catch {
    // Storage may be forbidden; the browser's language still serves.
  }
  if (stored in tables) return stored;
  return (navigator.languages ?? [navigator.language]).map((tag) => tag.slice(0, 2)).find((tag) => tag in tables) ?? "en";
}

let current = preferred();

export const language = () => current;

/** Text of `key`; `values` fill `{name}` places. An unknown key gives an empty string. */
export function text(key, values = {}) {
  const template = tables[current][key] ?? en[key] ?? "";
  return template.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

export const has = (key) => key in en;

/** Fill every element that names a string in data-text, data-label, data-title or data-placeholder. */
export function fill(root = document) {
  document.documentElement.lang = current === "zh" ? "zh-CN" : current;
  for (const el of root.querySelectorAll("[data-text]")) el.textContent = text(el.dataset.text);
  for (const el of root.querySelectorAll("[data-label]")) el.setAttribute("aria-label", text(el.dataset.label));
  for (const el of root.querySelectorAll("[data-title]")) el.title = text(el.dataset.title);
  for (const el of root.querySelectorAll("[data-placeholder]")) el.placeholder = text(el.dataset.placeholder);
}

export function choose(tag) {
  if (!(tag in tables)) return;
  current = tag;
  try {
    localStorage.setItem(STORED, tag);
  } catch {
    // Then the choice lasts for this visit.
  }
}
