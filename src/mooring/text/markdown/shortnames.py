"""The emoji people and models write as `:name:`; any other text between colons stays text."""

import re
from typing import Any

_NAMES = {
    "smile": "1f604", "smiley": "1f603", "grin": "1f601", "grinning": "1f600", "laughing": "1f606",
    "joy": "1f602", "rofl": "1f923", "slight_smile": "1f642", "blush": "1f60a", "innocent": "1f607",
    "wink": "1f609", "heart_eyes": "1f60d", "kissing_heart": "1f618", "thinking": "1f914",
    "neutral_face": "1f610", "confused": "1f615", "disappointed": "1f61e", "worried": "1f61f", "cry": "1f622",
    "sob": "1f62d", "angry": "1f620", "rage": "1f621", "scream": "1f631", "sweat_smile": "1f605",
    "sunglasses": "1f60e", "sleeping": "1f634", "exploding_head": "1f92f", "shrug": "1f937",
    "facepalm": "1f926",
    "see_no_evil": "1f648", "thumbsup": "1f44d", "+1": "1f44d", "thumbsdown": "1f44e", "-1": "1f44e",
    "ok_hand": "1f44c", "clap": "1f44f", "wave": "1f44b", "pray": "1f64f", "muscle": "1f4aa", "eyes": "1f440",
    "raised_hands": "1f64c", "point_right": "1f449", "point_left": "1f448", "point_up": "261d",
    "heart": "2764", "broken_heart": "1f494", "star": "2b50", "star2": "1f31f", "sparkles": "2728",
    "fire": "1f525", "boom": "1f4a5", "zap": "26a1", "rocket": "1f680", "tada": "1f389", "gift": "1f381",
    "trophy": "1f3c6", "medal": "1f3c5", "balloon": "1f388", "confetti_ball": "1f38a", "coffee": "2615",
    "beer": "1f37a", "pizza": "1f355", "cake": "1f370", "sunny": "2600", "cloud": "2601", "umbrella": "2614",
    "snowflake": "2744", "rainbow": "1f308", "earth_africa": "1f30d", "seedling": "1f331", "herb": "1f33f",
    "bug": "1f41b", "bee": "1f41d", "dog": "1f436", "cat": "1f431", "unicorn": "1f984", "snake": "1f40d",
    "check_mark": "2714", "heavy_check_mark": "2714", "white_check_mark": "2705",
    "ballot_box_with_check": "2611",
    "x": "274c", "negative_squared_cross_mark": "274e", "cross_mark": "274c", "warning": "26a0",
    "no_entry": "26d4", "no_entry_sign": "1f6ab", "stop_sign": "1f6d1", "construction": "1f6a7",
    "rotating_light": "1f6a8", "exclamation": "2757", "question": "2753", "bangbang": "203c",
    "information_source": "2139", "bulb": "1f4a1", "memo": "1f4dd", "pencil": "1f4dd", "pencil2": "270f",
    "book": "1f4d6", "books": "1f4da", "bookmark": "1f516", "clipboard": "1f4cb", "pushpin": "1f4cc",
    "paperclip": "1f4ce", "link": "1f517", "mag": "1f50d", "lock": "1f512", "unlock": "1f513", "key": "1f511",
    "wrench": "1f527", "hammer": "1f528", "hammer_and_wrench": "1f6e0", "gear": "2699", "package": "1f4e6",
    "calendar": "1f4c6", "date": "1f4c5", "alarm_clock": "23f0", "hourglass": "231b", "stopwatch": "23f1",
    "bell": "1f514", "mega": "1f4e3", "email": "2709", "envelope": "2709", "phone": "260e",
    "computer": "1f4bb",
    "floppy_disk": "1f4be", "chart_with_upwards_trend": "1f4c8", "chart_with_downwards_trend": "1f4c9",
    "bar_chart": "1f4ca", "moneybag": "1f4b0", "recycle": "267b", "art": "1f3a8", "dart": "1f3af",
    "speech_balloon": "1f4ac", "thought_balloon": "1f4ad", "ship": "1f6a2", "anchor": "2693",
    "house": "1f3e0",
    "arrow_right": "27a1", "arrow_left": "2b05", "arrow_up": "2b06", "arrow_down": "2b07", "new": "1f195",
    "red_circle": "1f534", "green_circle": "1f7e2", "yellow_circle": "1f7e1", "large_blue_circle": "1f535",
}  # fmt: skip
_LONGEST_FIRST = sorted(_NAMES, key=len, reverse=True)
PATTERN = re.compile(f":(?:{'|'.join(re.escape(name) for name in _LONGEST_FIRST)}):")


def emoji(name: str) -> dict[str, Any]:
    code = _NAMES[name]
    return {"type": "emoji", "attrs": {"shortName": f":{name}:", "id": code, "text": chr(int(code, 16))}}
