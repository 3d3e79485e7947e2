"""Converts quantities from one unit to another. Units may be written in English, Chinese or
Japanese."""

from __future__ import annotations

_UNITS = {
    "length in m": {
        0.001: "mm millimeter millimetre 毫米 ミリ ミリメートル",
        0.01: "cm centimeter centimetre 厘米 公分 センチ センチメートル",
        1: "m meter metre 米 公尺 メートル",
        1000: "km kilometer kilometre 公里 千米 キロ キロメートル",
        0.0254: "in inch inches 英寸 インチ",
        0.3048: "ft foot feet 英尺 フィート",
        0.9144: "yd yard 码 ヤード",
        1609.344: "mi mile 英里 マイル",
        1852: "nmi nauticalmile 海里",
        500: "里 市里",
        1 / 3: "尺 市尺",
        9.4607304725808e15: "ly lightyear 光年",
    },
    "mass in kg": {
        1e-6: "mg milligram 毫克 ミリグラム",
        0.001: "g gram 克 グラム",
        1: "kg kilo kilogram 千克 公斤 キログラム",
        1000: "t ton tonne 吨 トン",
        0.5: "斤 市斤",
        0.05: "两 市两",
        0.45359237: "lb lbs pound 磅 ポンド",
        0.028349523125: "oz ounce 盎司 オンス",
        6.35029318: "st stone 英石",
    },
    "volume in l": {
        0.001: "ml milliliter millilitre cc 毫升 ミリリットル",
        0.01: "cl centiliter",
        0.1: "dl deciliter デシリットル",
        1: "l liter litre 升 公升 リットル",
        1000: "m3 cubicmeter cubicmetre 立方米 立方メートル",
        3.785411784: "gal gallon 加仑 ガロン",
        0.946352946: "qt quart 夸脱",
        0.473176473: "pt pint 品脱 パイント",
        0.2365882365: "cup 杯 カップ",
        0.01478676478125: "tbsp tablespoon 大匙 汤匙 大さじ",
        0.00492892159375: "tsp teaspoon 小匙 茶匙 小さじ",
        0.0295735295625: "floz fluidounce",
    },
    "time in s": {
        0.001: "ms millisecond 毫秒 ミリ秒",
        1: "s sec second 秒 秒钟",
        60: "min minute 分 分钟 分間",
        3600: "h hr hour 小时 钟头 个小时 時間",
        86400: "d day 天 日 日間",
        604800: "w week 周 星期 个星期 週 週間",
        31557600: "y yr year 年 年間",
    },
    "area in m²": {
        0.0001: "cm2 squarecentimeter 平方厘米",
        1: "m2 sqm squaremeter squaremetre 平米 平方米 平方メートル",
        10_000: "ha hectare 公顷 ヘクタール",
        1_000_000: "km2 squarekilometer squarekilometre 平方公里 平方千米 平方キロメートル",
        0.09290304: "ft2 sqft squarefoot squarefeet 平方英尺",
        4046.8564224: "acre 英亩 エーカー",
        2_589_988.110336: "squaremile",
        2000 / 3: "亩",
        400 / 121: "坪",
        400 / 121 / 2: "畳",
    },
    "speed in m/s": {
        1: "m/s mps 米每秒 米/秒",
        1 / 3.6: "km/h kmh kph 公里每小时 公里/小时 千米每小时 時速",
        0.44704: "mph 英里每小时",
        0.514444: "kn knot 节 ノット",
    },
    "data in bytes": {
        0.125: "bit 比特 ビット",
        1: "b byte 字节 バイト",
        1e3: "kb kilobyte",
        1e6: "mb megabyte",
        1e9: "gb gigabyte",
        1e12: "tb terabyte",
        1024: "kib",
        1024**2: "mib",
        1024**3: "gib",
    },
    "energy in J": {
        1: "j joule 焦耳 ジュール",
        1000: "kj kilojoule 千焦",
        4.184: "cal calorie 卡 カロリー",
        4184: "kcal kilocalorie 千卡 大卡 キロカロリー",
        3_600_000: "kwh kilowatthour 度",
    },
}
_FACTOR = {
    name: (kind, factor)
    for kind, units in _UNITS.items()
    for factor, names in units.items()
    for name in names.split()
}
_CELSIUS = ("c", "°c", "℃", "celsius", "摄氏度", "摄氏", "摂氏", "度")
_FAHRENHEIT = ("f", "°f", "℉", "fahrenheit", "华氏度", "华氏", "華氏")
_KELVIN = ("k", "kelvin", "开尔文", "ケルビン")


def convert(value: float, unit: str, to: str) -> int | float:
    """Convert a value from one unit to another, such as ``convert(5, 'miles', 'km')``."""
    if _degree(unit) and _degree(to):
        return tidy(_from_celsius(_to_celsius(value, _degree(unit)), _degree(to)))
    kind, factor = _known(unit)
    other, divisor = _known(to)
    if kind != other:
        raise ValueError(f"{unit!r} is {kind}, but {to!r} is {other}")
    return tidy(value * factor / divisor)


def tidy(value: float) -> int | float:
    """Return a number as people write it: without a fraction of zeros, else with two digits after
    the point, or four significant ones if it is small."""
    if isinstance(value, int):
        return value
    near = round(value, 9)
    if near == int(near):
        return int(near)
    return round(value, 2) if abs(value) >= 1 else float(f"{value:.4g}")


def _known(unit: str) -> tuple[str, float]:
    name = unit.strip().lower().replace(" ", "").replace("²", "2").replace("³", "3").strip(".")
    for spelling in (name, name.removesuffix("s"), name.removesuffix("es"), f"{name[:-3]}y"):
        if spelling in _FACTOR:
            return _FACTOR[spelling]
    raise ValueError(f"{unit!r} is no unit that convert knows: write it as km, kg, l, hours, °C")


def _degree(unit: str) -> str:
    name = unit.strip().lower().removeprefix("degrees ").removeprefix("degree ").strip()
    for kind, names in (("C", _CELSIUS), ("F", _FAHRENHEIT), ("K", _KELVIN)):
        if name in names:
            return kind
    return ""


def _to_celsius(value: float, unit: str) -> float:
    return {"C": value, "F": (value - 32) / 1.8, "K": value - 273.15}[unit]


def _from_celsius(value: float, unit: str) -> float:
    return {"C": value, "F": value * 1.8 + 32, "K": value + 273.15}[unit]
