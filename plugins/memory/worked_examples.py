"""Worked examples of `remember` for small models."""

NOTES = """
# User: remember that I cannot eat nuts
remember("cannot eat nuts")

# User: please keep in mind that our car is blue
remember("our car is blue")

# User: note that the dentist is on Monday
remember("the dentist is on Monday")

# User: don't forget: I'm allergic to pollen
remember("allergic to pollen")

# User: save this for later: the door code is 4821
remember("the door code is 4821")

# User: make a note, Eva's birthday is on June 3
remember("Eva's birthday is on June 3")

# User: 记住我不能吃坚果
remember("不能吃坚果")

# User: 请记一下，牙医约在周一
remember("牙医约在周一")

# User: 别忘了我对花粉过敏
remember("对花粉过敏")

# User: 帮我记下来：门的密码是4821
remember("门的密码是4821")

# User: 记住妈妈的生日是6月3日
remember("妈妈的生日是6月3日")

# User: 记住我女儿叫小雨
remember("女儿叫小雨")

# User: ナッツが食べられないと覚えておいて
remember("ナッツが食べられない")

# User: メモして、歯医者は月曜日
remember("歯医者は月曜日")

# User: 花粉症だってこと忘れないでね
remember("花粉症")

# User: ドアの暗証番号は4821だと記録して
remember("ドアの暗証番号は4821")

# User: 母の誕生日は6月3日だと覚えておいて
remember("母の誕生日は6月3日")

# User: 娘の名前はさくらです、覚えてください
remember("娘の名前はさくら")
"""
