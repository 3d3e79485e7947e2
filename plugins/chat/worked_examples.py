"""Worked examples for small models: talk, sums, counts, dates and units that Python computes, and
quotes of what was said.

A small model sees the few that are most like the question. It copies their pattern, so there is one
for each way to ask. The functions in the expressions are builtins of every run.
"""

TALK = """
# User: good morning!
send_channel_message("Good morning! How are you?")

# User: good night, see you tomorrow
send_channel_message("Good night, sleep well!")

# User: I am so tired today
send_channel_message("That sounds like a long day. Take a break!")

# User: recommend a good movie
send_channel_message("How about Spirited Away? It is beautiful and a little strange.")

# User: translate "thank you" into Spanish
send_channel_message("Gracias")

# User: how do you say water in German?
send_channel_message("Wasser")

# User: what is gravity?
send_channel_message("Gravity is the force by which masses attract each other.")

# User: explain what a database is
send_channel_message("A database stores data so that programs can find and change it quickly.")

# User: how high is the Eiffel Tower?
send_channel_message("It is about 330 meters high.")

# User: what is the capital of Japan?
send_channel_message("The capital of Japan is Tokyo.")

# User: at what temperature does water boil
send_channel_message("Water boils at 100 °C.")

# User: how many legs does a spider have?
send_channel_message("A spider has eight legs.")

# User: where is the Eiffel Tower?
send_channel_message("It is in Paris, France.")

# User: who discovered penicillin
send_channel_message("Alexander Fleming discovered penicillin.")

# User: who wrote Don Quixote?
send_channel_message("Miguel de Cervantes wrote it.")

# User: when did the Titanic sink?
send_channel_message("The Titanic sank in April of the year 1912.")

# User: what does "ubiquitous" mean?
send_channel_message("It means: found everywhere.")

# User: tell me a fun fact about octopuses
send_channel_message("An octopus has three hearts.")

# User: give me two tips for studying
send_channel_message("Make a plan, and take a short break every hour.")

# User: what should I cook tonight?
send_channel_message("How about pasta with tomatoes and basil?")

# User: write a short poem about the moon
send_channel_message("The moon so bright,\\na lamp of night.")

# User: fix my sentence: he go to school
send_channel_message("He goes to school.")

# User: what is the opposite of hot
send_channel_message("The opposite of hot is cold.")

# User: do you like music?
send_channel_message("I do! What do you like to listen to?")

# User: let's play a riddle
send_channel_message("What has hands but cannot clap? A clock.")

# User: sorry, my mistake
send_channel_message("No problem at all!")

# User: 早上好
send_channel_message("早上好！今天过得怎么样？")

# User: 晚安，明天见
send_channel_message("晚安，做个好梦！")

# User: 我今天好累啊
send_channel_message("辛苦了，好好休息一下吧。")

# User: 推荐一部好看的电影
send_channel_message("推荐《千与千寻》，画面很美，故事也动人。")

# User: “谢谢”用西班牙语怎么说？
send_channel_message("Gracias")

# User: 把“我爱你”翻译成英语
send_channel_message("I love you")

# User: 什么是重力？
send_channel_message("重力是物体之间互相吸引的力。")

# User: 东方明珠有多高？
send_channel_message("东方明珠塔高468米。")

# User: 日本的首都是哪里？
send_channel_message("日本的首都是东京。")

# User: 水多少度会沸腾
send_channel_message("水在100度时沸腾。")

# User: 埃菲尔铁塔在哪里
send_channel_message("埃菲尔铁塔在法国巴黎。")

# User: 青霉素是谁发现的？
send_channel_message("青霉素是弗莱明发现的。")

# User: 《红楼梦》的作者是谁？
send_channel_message("《红楼梦》的作者是曹雪芹。")

# User: “画蛇添足”是什么意思？
send_channel_message("意思是多此一举，反而坏事。")

# User: 讲一个关于章鱼的冷知识
send_channel_message("章鱼有三颗心脏。")

# User: 给我两个学习的建议
send_channel_message("先定一个计划，每学一小时就休息一会儿。")

# User: 今晚吃什么好呢
send_channel_message("试试番茄炒蛋配米饭吧。")

# User: 写一句关于月亮的诗
send_channel_message("月色如水，照我归途。")

# User: 怎样才能睡得好？
send_channel_message("睡前少看手机，每天按时睡觉。")

# User: 你喜欢音乐吗
send_channel_message("喜欢！你常听什么歌？")

# User: 对不起，我弄错了
send_channel_message("没关系！")

# User: おはよう
send_channel_message("おはようございます！よく眠れましたか？")

# User: おやすみ、また明日
send_channel_message("おやすみなさい。いい夢を！")

# User: 今日はとても疲れた
send_channel_message("お疲れさまでした。ゆっくり休んでくださいね。")

# User: おすすめの映画を教えて
send_channel_message("「千と千尋の神隠し」がおすすめです。")

# User: 「ありがとう」をスペイン語で何と言う？
send_channel_message("Graciasです。")

# User: 「水」を英語に訳して
send_channel_message("water")

# User: 重力とは何ですか？
send_channel_message("重力は物と物が引き合う力です。")

# User: 東京タワーの高さはどのくらい？
send_channel_message("東京タワーの高さは333メートルです。")

# User: 日本の首都はどこですか
send_channel_message("日本の首都は東京です。")

# User: 水は何度で沸騰しますか？
send_channel_message("水は100度で沸騰します。")

# User: エッフェル塔はどこにある？
send_channel_message("フランスのパリにあります。")

# User: ペニシリンを発見したのは誰？
send_channel_message("アレクサンダー・フレミングです。")

# User: 「源氏物語」を書いたのは誰ですか？
send_channel_message("紫式部です。")

# User: 「一石二鳥」とはどういう意味？
send_channel_message("一つのことで二つの得をすることです。")

# User: タコの豆知識を教えて
send_channel_message("タコには心臓が三つあります。")

# User: 勉強のコツを二つ教えて
send_channel_message("計画を立てて、一時間ごとに休憩しましょう。")

# User: 今夜は何を食べようかな
send_channel_message("カレーライスはいかがですか？")

# User: 月の短い詩を書いて
send_channel_message("月あかり\\n静かな夜を\\n照らしてる")

# User: よく眠るにはどうすればいい？
send_channel_message("寝る前のスマホをやめて、毎日同じ時間に寝ましょう。")

# User: 音楽は好きですか
send_channel_message("好きです！どんな曲を聴きますか？")

# User: ごめん、間違えた
send_channel_message("大丈夫ですよ！")
"""

SUMS = """
# User: What is 46*58?
send_channel_message(f"46 * 58 = {46 * 58}")

# User: what's 512 + 389?
send_channel_message(f"512 + 389 = {512 + 389}")

# User: calculate 1000 - 357 please
send_channel_message(f"1000 - 357 = {1000 - 357}")

# User: 91 divided by 7
send_channel_message(f"91 / 7 = {91 / 7:.10g}")

# User: how much is 64 times 25
send_channel_message(f"64 * 25 = {64 * 25}")

# User: (18 + 7) * 4 = ?
send_channel_message(f"(18 + 7) * 4 = {(18 + 7) * 4}")

# User: 3.5 x 12.4
send_channel_message(f"3.5 * 12.4 = {3.5 * 12.4:.10g}")

# User: what is 2 to the power of 16?
send_channel_message(f"2 ** 16 = {2 ** 16}")

# User: 19 squared
send_channel_message(f"19 squared is {19 ** 2}.")

# User: square root of 625
send_channel_message(f"The square root of 625 is {sqrt(625)}.")

# User: what is the remainder of 200 divided by 13?
send_channel_message(f"The remainder is {200 % 13}.")

# User: factorial of 7
send_channel_message(f"7! = {factorial(7)}")

# User: What is 15% of 80?
send_channel_message(f"15% of 80 is {percent_of(15, 80)}.")

# User: a coat costs $120 and is 30% off, what do I pay?
send_channel_message(f"You pay ${120 - percent_of(30, 120)}.")

# User: add an 18% tip to a bill of 64 dollars
send_channel_message(f"With the tip it is {64 + percent_of(18, 64)} dollars.")

# User: what percent of 250 is 40?
send_channel_message(f"It is {40 / 250 * 100:.10g} percent.")

# User: average of 12, 18 and 27
send_channel_message(f"The average is {average_of(12, 18, 27)}.")

# User: add up 14, 22, 9 and 31
send_channel_message(f"The sum is {14 + 22 + 9 + 31}.")

# User: I had 15 apples, ate 4 and bought 12 more. How many do I have?
send_channel_message(f"You have {15 - 4 + 12} apples.")

# User: 5 boxes with 24 eggs each, how many eggs is that?
send_channel_message(f"That is {5 * 24} eggs.")

# User: split 96 dollars between 4 friends
send_channel_message(f"Each pays {96 / 4:.10g} dollars.")

# User: if one ticket costs 13 euros, how much are 9 tickets?
send_channel_message(f"9 tickets cost {9 * 13} euros.")

# User: I drive 240 km in 3 hours, how fast is that?
send_channel_message(f"That is {240 / 3:.10g} km/h.")

# User: half of 378
send_channel_message(f"Half of 378 is {378 / 2:.10g}.")

# User: double 467
send_channel_message(f"Double 467 is {467 * 2}.")

# User: a dozen and a half eggs, how many?
send_channel_message(f"That is {12 + 12 // 2} eggs.")

# User: How many days until Christmas?
send_channel_message(f"It is {days_until('Christmas')} days until Christmas.")

# User: how long is it until March 14?
send_channel_message(f"It is {days_until('March 14')} days until March 14.")

# User: how many weeks until Halloween
send_channel_message(f"It is {days_until('Halloween') / 7:.10g} weeks until Halloween.")

# User: how many days since January 1, 2020?
send_channel_message(f"It has been {days_since('January 1, 2020')} days.")

# User: days between March 3 and May 20
send_channel_message(f"It is {days_between('March 3', 'May 20')} days.")

# User: what date is it today?
send_channel_message(f"Today is {today()}.")

# User: what day is it
send_channel_message(f"It is {weekday('today')}.")

# User: What weekday was July 20, 1969?
send_channel_message(f"It was a {weekday('July 20, 1969')}.")

# User: which day of the week is 2030-05-01?
send_channel_message(f"It is a {weekday('2030-05-01')}.")

# User: what day of the week is tomorrow?
send_channel_message(f"Tomorrow is {weekday('tomorrow')}.")

# User: what is the date in 45 days?
send_channel_message(f"It is {date_after(45, 'days', 'today')}.")

# User: what date was it 3 weeks ago
send_channel_message(f"It was {date_after(-3, 'weeks', 'today')}.")

# User: what is 30 days after March 15?
send_channel_message(f"It is {date_after(30, 'days', 'March 15')}.")

# User: how many days does February 2028 have?
send_channel_message(f"It has {days_in('February 2028')} days.")

# User: is 2028 a leap year?
send_channel_message(f"2028 has {days_in('2028')} days.")

# User: how old is someone who was born in 1987?
send_channel_message(f"About {years_since('1987')} years old.")

# User: I was born on May 4, 1995. How old am I?
send_channel_message(f"You are {years_since('May 4, 1995')} years old.")

# User: what time is it?
send_channel_message(f"It is {clock()}.")

# User: what time is it 95 minutes after 14:30?
send_channel_message(f"It is {time_after('14:30', 95, 'minutes')}.")

# User: how many minutes are between 9:15 and 17:40?
send_channel_message(f"It is {minutes_between('9:15', '17:40')} minutes.")

# User: how many hours from 8:00 to 18:00
send_channel_message(f"It is {minutes_between('8:00', '18:00') / 60:.10g} hours.")

# User: convert 5 miles to kilometers
send_channel_message(f"5 miles are {convert(5, 'miles', 'kilometers')} kilometers.")

# User: How many pounds is 70 kg?
send_channel_message(f"70 kg are {convert(70, 'kg', 'pounds')} pounds.")

# User: what is 100 fahrenheit in celsius
send_channel_message(f"100 °F are {convert(100, 'fahrenheit', 'celsius')} °C.")

# User: how many minutes are in 3.5 hours?
send_channel_message(f"3.5 hours are {convert(3.5, 'hours', 'minutes')} minutes.")

# User: how many seconds are there in a day?
send_channel_message(f"A day has {convert(1, 'day', 'seconds')} seconds.")

# User: 6 feet in cm
send_channel_message(f"6 feet are {convert(6, 'feet', 'cm')} cm.")

# User: how many grams are 2 ounces
send_channel_message(f"2 ounces are {convert(2, 'ounces', 'grams')} grams.")

# User: How many letters are in "strawberry"?
send_channel_message(f"It has {letters_in('strawberry')} letters.")

# User: how many r's are in strawberry?
send_channel_message(f"There are {count_in('r', 'strawberry')}.")

# User: count the letter e in "eleven elephants"
send_channel_message(f"There are {count_in('e', 'eleven elephants')}.")

# User: how many vowels does "education" have
send_channel_message(f"It has {count_in('vowels', 'education')} vowels.")

# User: how many words are in "the quick brown fox jumps"?
send_channel_message(f"It has {words_in('the quick brown fox jumps')} words.")

# User: spell "guitar" backwards
send_channel_message(f"Backwards it is {reverse_text('guitar')}.")

# User: 46乘以58等于多少？
send_channel_message(f"46 × 58 = {46 * 58}")

# User: 512加389是多少
send_channel_message(f"512 + 389 = {512 + 389}")

# User: 算一下1000减357
send_channel_message(f"1000 - 357 = {1000 - 357}")

# User: 91除以7等于几？
send_channel_message(f"91 ÷ 7 = {91 / 7:.10g}")

# User: (18+7)*4=?
send_channel_message(f"(18 + 7) * 4 = {(18 + 7) * 4}")

# User: 请计算(18+7)×4
send_channel_message(f"(18 + 7) × 4 = {(18 + 7) * 4}")

# User: 2的16次方是多少？
send_channel_message(f"2的16次方是{2 ** 16}。")

# User: 19的平方是多少
send_channel_message(f"19的平方是{19 ** 2}。")

# User: 625的平方根是多少
send_channel_message(f"625的平方根是{sqrt(625)}。")

# User: 200除以13余几？
send_channel_message(f"余{200 % 13}。")

# User: 80的15%是多少？
send_channel_message(f"80的15%是{percent_of(15, 80)}。")

# User: 一件120元的衣服打7折，要付多少钱？
send_channel_message(f"要付{percent_of(70, 120)}元。")

# User: 40占250的百分之几
send_channel_message(f"占{40 / 250 * 100:.10g}%。")

# User: 12、18和27的平均数是多少？
send_channel_message(f"平均数是{average_of(12, 18, 27)}。")

# User: 14加22加9加31一共是多少
send_channel_message(f"一共是{14 + 22 + 9 + 31}。")

# User: 我有15个苹果，吃了4个，又买了12个，现在有几个？
send_channel_message(f"现在有{15 - 4 + 12}个苹果。")

# User: 5箱鸡蛋，每箱24个，一共多少个？
send_channel_message(f"一共{5 * 24}个。")

# User: 96块钱4个人平分，每人多少？
send_channel_message(f"每人{96 / 4:.10g}块。")

# User: 一张票13元，9张票多少钱
send_channel_message(f"9张票{9 * 13}元。")

# User: 离圣诞节还有多少天？
send_channel_message(f"离圣诞节还有{days_until('圣诞节')}天。")

# User: 距离3月14日还有几天
send_channel_message(f"还有{days_until('3月14日')}天。")

# User: 从2020年1月1日到今天过了多少天？
send_channel_message(f"过了{days_since('2020年1月1日')}天。")

# User: 3月3日到5月20日有几天
send_channel_message(f"有{days_between('3月3日', '5月20日')}天。")

# User: 今天几号？
send_channel_message(f"今天是{today('zh')}。")

# User: 今天星期几
send_channel_message(f"今天是{weekday('今天', 'zh')}。")

# User: 明天是星期几？
send_channel_message(f"明天是{weekday('明天', 'zh')}。")

# User: 1969年7月20日是星期几？
send_channel_message(f"那天是{weekday('1969年7月20日', 'zh')}。")

# User: 45天后是几月几号？
send_channel_message(f"45天后是{date_after(45, '天', '今天', 'zh')}。")

# User: 3周前是几号
send_channel_message(f"3周前是{date_after(-3, '周', '今天', 'zh')}。")

# User: 2028年2月有多少天？
send_channel_message(f"有{days_in('2028年2月')}天。")

# User: 1987年出生的人今年多大？
send_channel_message(f"大约{years_since('1987')}岁。")

# User: 现在几点了？
send_channel_message(f"现在{clock()}。")

# User: 14:30再过95分钟是几点？
send_channel_message(f"是{time_after('14:30', 95, '分钟')}。")

# User: 从9:15到17:40一共多少分钟
send_channel_message(f"一共{minutes_between('9:15', '17:40')}分钟。")

# User: 5英里等于多少公里？
send_channel_message(f"5英里等于{convert(5, '英里', '公里')}公里。")

# User: 70公斤是多少斤
send_channel_message(f"70公斤是{convert(70, '公斤', '斤')}斤。")

# User: 100华氏度是多少摄氏度？
send_channel_message(f"是{convert(100, '华氏度', '摄氏度')}摄氏度。")

# User: 3.5小时是多少分钟
send_channel_message(f"3.5小时是{convert(3.5, '小时', '分钟')}分钟。")

# User: “春眠不觉晓”有几个字？
send_channel_message(f"有{letters_in('春眠不觉晓')}个字。")

# User: strawberry里有几个r？
send_channel_message(f"有{count_in('r', 'strawberry')}个。")

# User: 46かける58は？
send_channel_message(f"46 × 58 = {46 * 58}です。")

# User: 512足す389はいくつですか
send_channel_message(f"512 + 389 = {512 + 389}です。")

# User: 1000引く357は？
send_channel_message(f"1000 - 357 = {1000 - 357}です。")

# User: 91割る7はいくつ？
send_channel_message(f"91 ÷ 7 = {91 / 7:.10g}です。")

# User: (18+7)×4を計算して
send_channel_message(f"(18 + 7) × 4 = {(18 + 7) * 4}です。")

# User: 2の16乗は？
send_channel_message(f"2の16乗は{2 ** 16}です。")

# User: 625の平方根を教えて
send_channel_message(f"625の平方根は{sqrt(625)}です。")

# User: 200を13で割った余りは？
send_channel_message(f"余りは{200 % 13}です。")

# User: 80の15%はいくら？
send_channel_message(f"80の15%は{percent_of(15, 80)}です。")

# User: 120円の3割引きはいくらですか？
send_channel_message(f"{120 - percent_of(30, 120)}円です。")

# User: 12と18と27の平均は？
send_channel_message(f"平均は{average_of(12, 18, 27)}です。")

# User: 14と22と9と31の合計は？
send_channel_message(f"合計は{14 + 22 + 9 + 31}です。")

# User: りんごが15個あって4個食べて12個買いました。何個ありますか？
send_channel_message(f"{15 - 4 + 12}個あります。")

# User: 24個入りの箱が5つあります。全部で何個？
send_channel_message(f"全部で{5 * 24}個です。")

# User: 96ドルを4人で割ると一人いくら？
send_channel_message(f"一人{96 / 4:.10g}ドルです。")

# User: 13ユーロの切符を9枚買うといくら？
send_channel_message(f"{9 * 13}ユーロです。")

# User: クリスマスまであと何日？
send_channel_message(f"クリスマスまであと{days_until('クリスマス')}日です。")

# User: 3月14日まで何日ありますか
send_channel_message(f"3月14日まであと{days_until('3月14日')}日です。")

# User: 2020年1月1日から何日たった？
send_channel_message(f"{days_since('2020年1月1日')}日たちました。")

# User: 3月3日から5月20日までは何日間？
send_channel_message(f"{days_between('3月3日', '5月20日')}日間です。")

# User: 今日は何日？
send_channel_message(f"今日は{today('ja')}です。")

# User: 今日は何曜日ですか
send_channel_message(f"今日は{weekday('今日', 'ja')}です。")

# User: 明日は何曜日？
send_channel_message(f"明日は{weekday('明日', 'ja')}です。")

# User: 1969年7月20日は何曜日だった？
send_channel_message(f"{weekday('1969年7月20日', 'ja')}でした。")

# User: 45日後は何月何日？
send_channel_message(f"45日後は{date_after(45, '日', '今日', 'ja')}です。")

# User: 3週間前は何日だった？
send_channel_message(f"3週間前は{date_after(-3, '週間', '今日', 'ja')}でした。")

# User: 2028年2月は何日ある？
send_channel_message(f"{days_in('2028年2月')}日あります。")

# User: 1987年生まれは今何歳？
send_channel_message(f"だいたい{years_since('1987')}歳です。")

# User: 今何時？
send_channel_message(f"今は{clock()}です。")

# User: 14時30分の95分後は何時？
send_channel_message(f"{time_after('14:30', 95, '分')}です。")

# User: 9時15分から17時40分まで何分ですか
send_channel_message(f"{minutes_between('9:15', '17:40')}分です。")

# User: 5マイルは何キロ？
send_channel_message(f"5マイルは{convert(5, 'マイル', 'キロ')}キロです。")

# User: 70kgは何ポンドですか
send_channel_message(f"70kgは{convert(70, 'kg', 'ポンド')}ポンドです。")

# User: 華氏100度は摂氏何度？
send_channel_message(f"摂氏{convert(100, '華氏', '摂氏')}度です。")

# User: 3.5時間は何分？
send_channel_message(f"3.5時間は{convert(3.5, '時間', '分')}分です。")

# User: 「いろはにほへと」は何文字？
send_channel_message(f"{letters_in('いろはにほへと')}文字です。")

# User: strawberryにrはいくつある？
send_channel_message(f"{count_in('r', 'strawberry')}個あります。")
"""

QUOTES = """
# User: what were the last 5 messages?
quote_messages(limit=5)

# User: what did we talk about before?
quote_messages(limit=5)

# User: show me what was said about the picnic
quote_messages(words="picnic")

# User: what did Tom say about the budget?
quote_messages(words="budget", who="Tom")

# User: what did I say earlier?
quote_messages(who="me")

# User: what did Sara write last?
quote_messages(who="Sara", limit=1)

# User: who mentioned the broken printer?
quote_messages(words="broken printer")

# User: when did we decide to meet?
quote_messages(words="meet")

# User: quote the last thing that Ben said
quote_messages(who="Ben", limit=1)

# User: find the message with the address
quote_messages(words="address")

# User: repeat the last 3 messages word for word
quote_messages(limit=3)

# User: did anybody post a link to the recipe?
quote_messages(words="recipe link")

# User: what was the wifi password that somebody posted?
quote_messages(words="wifi password")

# User: I missed the chat yesterday, what happened?
quote_messages(words="yesterday")

# User: scroll back to what you told me about the train
quote_messages(words="train", who="you")

# User: who talked about the football game?
quote_messages(words="football game")

# User: show me Kim's last message
quote_messages(who="Kim", limit=1)

# User: what was the last thing I asked you?
quote_messages(who="me", limit=1)

# User: catch me up on what I missed here
quote_messages(limit=10)

# User: summarize the conversation so far
quote_messages(limit=10)

# User: where did Paul say he left the keys?
quote_messages(words="keys", who="Paul")

# User: remind me what we said about dinner
quote_messages(words="dinner")

# User: which restaurant did Nina suggest?
quote_messages(words="restaurant", who="Nina")

# User: what time did we agree on for the call?
quote_messages(words="call time")

# User: what did you answer when I asked about the rent?
quote_messages(words="rent", who="you")

# User: has Mia said anything about Friday?
quote_messages(words="Friday", who="Mia")

# User: 最近的5条消息是什么？
quote_messages(limit=5)

# User: 我们之前聊了什么？
quote_messages(limit=5)

# User: 找一下关于野餐的消息
quote_messages(words="野餐")

# User: 小李说了预算的什么事？
quote_messages(words="预算", who="小李")

# User: 我刚才说了什么？
quote_messages(who="我")

# User: 小红最后说了什么
quote_messages(who="小红", limit=1)

# User: 谁提到过打印机坏了？
quote_messages(words="打印机")

# User: 上次说好几点见面来着？
quote_messages(words="见面")

# User: 把最后三条消息复述一遍
quote_messages(limit=3)

# User: 昨天群里说了些什么？
quote_messages(words="昨天")

# User: 有人发过食谱的链接吗？
quote_messages(words="食谱 链接")

# User: 查一下聊天记录里的地址
quote_messages(words="地址")

# User: 你之前跟我说的火车的事是什么？
quote_messages(words="火车", who="你")

# User: 有谁聊过足球比赛？
quote_messages(words="足球")

# User: 大家今天都在聊什么
quote_messages(limit=10)

# User: 总结一下前面的聊天
quote_messages(limit=10)

# User: 把前面四条消息发出来
quote_messages(limit=4)

# User: 老张之前推荐的餐厅叫什么？
quote_messages(words="餐厅", who="老张")

# User: 阿明说钥匙放在哪儿了
quote_messages(words="钥匙", who="阿明")

# User: 我们说好几号去爬山的？
quote_messages(words="爬山")

# User: 我上一个问题是什么
quote_messages(who="我", limit=1)

# User: 最後の5件のメッセージは何？
quote_messages(limit=5)

# User: さっき何を話していたっけ？
quote_messages(limit=5)

# User: ピクニックについての発言を探して
quote_messages(words="ピクニック")

# User: 田中さんは予算について何と言った？
quote_messages(words="予算", who="田中")

# User: 私は前に何て言った？
quote_messages(who="私")

# User: 花子さんの最後のメッセージを見せて
quote_messages(who="花子", limit=1)

# User: プリンターが壊れたと言ったのは誰？
quote_messages(words="プリンター")

# User: 何時に集まることになった？
quote_messages(words="集まる")

# User: 直近の3件をそのまま引用して
quote_messages(limit=3)

# User: 昨日このチャットで何があった？
quote_messages(words="昨日")

# User: 誰かレシピのリンクを貼った？
quote_messages(words="レシピ リンク")

# User: 過去のメッセージから住所を見つけて
quote_messages(words="住所")

# User: サッカーの話をしていたのは誰？
quote_messages(words="サッカー")

# User: 今日みんなで何の話をしていたの？
quote_messages(limit=10)

# User: ここまでの会話をまとめて
quote_messages(limit=10)

# User: 前の4つの発言を見せて
quote_messages(limit=4)

# User: 山田さんがすすめていた店の名前は？
quote_messages(words="店", who="山田")

# User: 鍵はどこにあると健太は言っていた？
quote_messages(words="鍵", who="健太")

# User: 会議の時間について誰か何か言ってた？
quote_messages(words="会議 時間")

# User: 僕が最後に聞いたことは何だった？
quote_messages(who="私", limit=1)

# User: 電車のことであなたは前に何て言った？
quote_messages(words="電車", who="あなた")
"""
