"""
# 花草养护小管家 (Plant Care)

记录群友的盆栽，按间隔提醒浇水。

## AI 可用方法

- `add_plant(name, species, interval_days)` 登记植物
- `list_plants()` 查看植物
- `water_plant(name)` 浇水打卡
- `plant_todo(day_offset)` 养护清单
"""

import sys

# 热重载时把旧的子模块一起丢掉，不然改了 handlers.py 不生效
for _old in [m for m in list(sys.modules) if m.startswith(f"{__name__}.")]:
    sys.modules.pop(_old, None)

from . import handlers  # noqa: E402, F401
from .plugin import plugin  # noqa: E402

__all__ = ["plugin"]
