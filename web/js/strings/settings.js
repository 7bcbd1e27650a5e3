// The sentences of the settings, and of microphones that come and go.

export const en = {
  "hint.mutedBySystem": "The system, or a switch on the microphone, mutes it. You can still type.",
  "microphone_replaced.title": "Another microphone is in use",
  "microphone_replaced.text": "The one you chose is not connected, so the system’s own listens. It is taken again once it is back.",
  "action.settings": "Settings",
};

export const zh = {
  "hint.mutedBySystem": "麦克风被系统或其自身的开关静音。你仍可输入文字。",
  "microphone_replaced.title": "正在使用另一个麦克风",
  "microphone_replaced.text": "你选择的麦克风没有连接，暂由系统默认麦克风代替；重新连接后会自动换回。",
  "action.settings": "设置",
};
