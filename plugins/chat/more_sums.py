"""More ways to ask for sums, counts, dates and units, as worked examples for small models."""

ARITHMETIC = """
# User: what is the sum of 45 and 67?
send_channel_message(f"The sum is {45 + 67}.")

# User: add 238 to 417
send_channel_message(f"238 + 417 = {238 + 417}")

# User: subtract 48 from 130
send_channel_message(f"130 - 48 = {130 - 48}")

# User: take 19 away from 70
send_channel_message(f"70 - 19 = {70 - 19}")

# User: product of 12 and 34
send_channel_message(f"12 * 34 = {12 * 34}")

# User: what's 7 x 8 x 9
send_channel_message(f"7 * 8 * 9 = {7 * 8 * 9}")

# User: divide 144 by 12
send_channel_message(f"144 / 12 = {144 / 12:.10g}")

# User: how many times does 8 fit into 120?
send_channel_message(f"It fits {120 // 8} times.")

# User: 12.5 plus 7.25
send_channel_message(f"12.5 + 7.25 = {12.5 + 7.25:.10g}")

# User: 45 + 30 - 12 * 2
send_channel_message(f"45 + 30 - 12 * 2 = {45 + 30 - 12 * 2}")

# User: 8 cubed
send_channel_message(f"8 cubed is {8 ** 3}.")

# User: a third of 96
send_channel_message(f"A third of 96 is {96 / 3:.10g}.")

# User: what is three quarters of 80
send_channel_message(f"Three quarters of 80 are {80 * 3 / 4:.10g}.")

# User: increase 200 by 15%
send_channel_message(f"That is {200 + percent_of(15, 200)}.")

# User: a phone costs 80 euros plus 19% tax, what is the total?
send_channel_message(f"The total is {80 + percent_of(19, 80)} euros.")

# User: the price went from 50 to 60, how many percent is that?
send_channel_message(f"It rose by {(60 - 50) / 50 * 100:.10g} percent.")

# User: what is 1000 dollars with 5% interest after one year
send_channel_message(f"It is {1000 + percent_of(5, 1000)} dollars.")

# User: perimeter of a rectangle 8 by 5
send_channel_message(f"The perimeter is {2 * (8 + 5)}.")

# User: what is the area of a room of 12 by 7 meters?
send_channel_message(f"The area is {12 * 7} square meters.")

# User: area of a circle with radius 3
send_channel_message(f"The area is about {3.14159 * 3 ** 2:.10g}.")

# User: I have 3 boxes with 12 pencils and 5 more pencils. How many pencils?
send_channel_message(f"You have {3 * 12 + 5} pencils.")

# User: Tom has 20 marbles and gives 7 to Ann. How many are left?
send_channel_message(f"Tom has {20 - 7} marbles left.")

# User: if I save 15 euros every week, how much do I have after 8 weeks?
send_channel_message(f"You have {15 * 8} euros.")

# User: I earn 18 dollars an hour. what do I get for 35 hours?
send_channel_message(f"You get {18 * 35} dollars.")

# User: a train goes 80 km/h for 3 hours, how far does it get?
send_channel_message(f"It gets {80 * 3} km far.")

# User: a recipe for 4 people needs 200 g of rice, how much for 10 people?
send_channel_message(f"You need {200 / 4 * 10:.10g} g of rice.")

# User: how many eggs are 6 dozen?
send_channel_message(f"That is {6 * 12} eggs.")

# User: sum of all numbers from 1 to 50
send_channel_message(f"The sum is {50 * (50 + 1) // 2}.")

# User: there are 28 students in groups of 4, how many groups?
send_channel_message(f"There are {28 // 4} groups.")

# User: I paid 7.50 for coffee and 12.80 for cake. How much together?
send_channel_message(f"Together it is {7.5 + 12.8:.10g}.")

# User: change from 50 dollars if I buy something for 32.75
send_channel_message(f"The change is {50 - 32.75:.10g} dollars.")

# User: 45与67的和是多少？
send_channel_message(f"45 + 67 = {45 + 67}")

# User: 130减去48等于几
send_channel_message(f"130 - 48 = {130 - 48}")

# User: 238+417
send_channel_message(f"238 + 417 = {238 + 417}")

# User: 帮我算算12乘34
send_channel_message(f"12 × 34 = {12 * 34}")

# User: 7×8×9等于多少
send_channel_message(f"7 × 8 × 9 = {7 * 8 * 9}")

# User: 144÷12
send_channel_message(f"144 ÷ 12 = {144 / 12:.10g}")

# User: 8的立方是多少？
send_channel_message(f"8的立方是{8 ** 3}。")

# User: 96的三分之一是多少
send_channel_message(f"96的三分之一是{96 / 3:.10g}。")

# User: 一个面包8元，买5个要多少钱？
send_channel_message(f"要{8 * 5}元。")

# User: 苹果每斤6块，3斤多少钱
send_channel_message(f"3斤{6 * 3}块。")

# User: 原价200元打8折是多少？
send_channel_message(f"是{percent_of(80, 200)}元。")

# User: 价格从50涨到60，涨了百分之几？
send_channel_message(f"涨了{(60 - 50) / 50 * 100:.10g}%。")

# User: 长12米宽7米的房间面积是多少？
send_channel_message(f"面积是{12 * 7}平方米。")

# User: 长8宽5的长方形周长是多少
send_channel_message(f"周长是{2 * (8 + 5)}。")

# User: 小明有20颗糖，给了小红7颗，还剩几颗？
send_channel_message(f"还剩{20 - 7}颗。")

# User: 每周存15元，8周能存多少？
send_channel_message(f"能存{15 * 8}元。")

# User: 时速80公里的火车3小时开多远？
send_channel_message(f"能开{80 * 3}公里。")

# User: 28个学生每组4人，可以分几组？
send_channel_message(f"可以分{28 // 4}组。")

# User: 买东西花了32.75元，给50元找多少？
send_channel_message(f"找{50 - 32.75:.10g}元。")

# User: 从1加到50等于多少
send_channel_message(f"等于{50 * (50 + 1) // 2}。")

# User: 45と67の和は？
send_channel_message(f"45 + 67 = {45 + 67}です。")

# User: 130から48を引くといくつ？
send_channel_message(f"130 - 48 = {130 - 48}です。")

# User: 238+417を計算して
send_channel_message(f"238 + 417 = {238 + 417}です。")

# User: 12×34はいくつですか
send_channel_message(f"12 × 34 = {12 * 34}です。")

# User: 144÷12の答えは？
send_channel_message(f"144 ÷ 12 = {144 / 12:.10g}です。")

# User: 8の3乗はいくつ？
send_channel_message(f"8の3乗は{8 ** 3}です。")

# User: 96の3分の1は？
send_channel_message(f"{96 / 3:.10g}です。")

# User: 1本80円の鉛筆を6本買うといくらですか？
send_channel_message(f"{80 * 6}円です。")

# User: 2000円の15%引きはいくら？
send_channel_message(f"{2000 - percent_of(15, 2000)}円です。")

# User: 500円に消費税10%を足すといくら？
send_channel_message(f"{500 + percent_of(10, 500)}円です。")

# User: 40は250の何パーセントですか？
send_channel_message(f"{40 / 250 * 100:.10g}%です。")

# User: 縦12メートル、横7メートルの部屋の面積は？
send_channel_message(f"面積は{12 * 7}平方メートルです。")

# User: 飴が20個あります。7個あげました。残りは何個？
send_channel_message(f"残りは{20 - 7}個です。")

# User: 毎週15ユーロ貯めると8週間でいくらになる？
send_channel_message(f"{15 * 8}ユーロになります。")

# User: 時速80キロで3時間走ると何キロ進む？
send_channel_message(f"{80 * 3}キロ進みます。")

# User: 28人を4人ずつのグループに分けると何グループ？
send_channel_message(f"{28 // 4}グループです。")

# User: 1000円で328円のお弁当を買うとおつりは？
send_channel_message(f"おつりは{1000 - 328}円です。")

# User: 1から50まで足すといくつ？
send_channel_message(f"{50 * (50 + 1) // 2}です。")
"""

DATES = """
# User: how many days are left until summer starts on June 21?
send_channel_message(f"There are {days_until('June 21')} days left.")

# User: how many days are left in this year?
send_channel_message(f"There are {days_until('December 31')} days left.")

# User: how many days till 9 July 2028?
send_channel_message(f"It is {days_until('9 July 2028')} days.")

# User: my birthday is on May 3, how many days do I have to wait?
send_channel_message(f"You have to wait {days_until('May 3')} days.")

# User: how many days from June 5 to August 9?
send_channel_message(f"It is {days_between('June 5', 'August 9')} days.")

# User: how many days were there between 1 May 2025 and 1 July 2025
send_channel_message(f"There were {days_between('1 May 2025', '1 July 2025')} days.")

# User: how many days ago was October 1?
send_channel_message(f"It was {days_since('October 1')} days ago.")

# User: what weekday is Christmas this year?
send_channel_message(f"It is a {weekday('Christmas')}.")

# User: on which day of the week does 4 July 2027 fall
send_channel_message(f"It is a {weekday('4 July 2027')}.")

# User: what was the date yesterday?
send_channel_message(f"It was {date_after(-1, 'days', 'today')}.")

# User: what's tomorrow's date
send_channel_message(f"Tomorrow is {date_after(1, 'days', 'today')}.")

# User: which date is two weeks from today?
send_channel_message(f"It is {date_after(2, 'weeks', 'today')}.")

# User: what date comes 10 days before Christmas?
send_channel_message(f"It is {date_after(-10, 'days', 'Christmas')}.")

# User: if I start on August 20 and it takes 6 weeks, when am I done?
send_channel_message(f"You are done on {date_after(6, 'weeks', 'August 20')}.")

# User: what month will it be in 5 months?
send_channel_message(f"It will be {date_after(5, 'months', 'today')}.")

# User: how many days are in April?
send_channel_message(f"April has {days_in('April')} days.")

# User: how many days are in the year 2024
send_channel_message(f"2024 has {days_in('2024')} days.")

# User: how many years has it been since 1969?
send_channel_message(f"It has been {years_since('1969')} years.")

# User: how many years are between 1914 and 1989
send_channel_message(f"It is {1989 - 1914} years.")

# User: how old will I be in 2050 if I was born in 1990?
send_channel_message(f"You will be {2050 - 1990} years old.")

# User: how many weeks are 91 days?
send_channel_message(f"That is {convert(91, 'days', 'weeks')} weeks.")

# User: what time will it be 3 hours after 22:30?
send_channel_message(f"It will be {time_after('22:30', 3, 'hours')}.")

# User: a film starts at 19:45 and takes 130 minutes, when does it end?
send_channel_message(f"It ends at {time_after('19:45', 130, 'minutes')}.")

# User: what time was it 40 minutes before 8:15
send_channel_message(f"It was {time_after('8:15', -40, 'minutes')}.")

# User: I slept from 23:00 to 6:30, how many hours is that?
send_channel_message(f"That is {minutes_between('23:00', '6:30') / 60:.10g} hours.")

# User: 今年还剩多少天？
send_channel_message(f"今年还剩{days_until('12月31日')}天。")

# User: 到春节还有几天
send_channel_message(f"到春节还有{days_until('春节')}天。")

# User: 我的生日是5月3日，还要等多少天？
send_channel_message(f"还要等{days_until('5月3日')}天。")

# User: 2025年5月1日到2025年7月1日之间有多少天？
send_channel_message(f"有{days_between('2025年5月1日', '2025年7月1日')}天。")

# User: 10月1日到现在多少天了？
send_channel_message(f"已经{days_since('10月1日')}天了。")

# User: 今年圣诞节是星期几？
send_channel_message(f"是{weekday('圣诞节', 'zh')}。")

# User: 昨天是几月几号？
send_channel_message(f"昨天是{date_after(-1, '天', '今天', 'zh')}。")

# User: 两个星期以后是几号？
send_channel_message(f"是{date_after(2, '周', '今天', 'zh')}。")

# User: 再过90天是哪一天？
send_channel_message(f"是{date_after(90, '天', '今天', 'zh')}。")

# User: 8月20日之后6周是哪天
send_channel_message(f"是{date_after(6, '周', '8月20日', 'zh')}。")

# User: 四月有几天？
send_channel_message(f"四月有{days_in('4月')}天。")

# User: 2024年是闰年吗？
send_channel_message(f"2024年有{days_in('2024')}天。")

# User: 1969年到现在过了多少年？
send_channel_message(f"过了{years_since('1969')}年。")

# User: 1990年出生，到2050年多少岁？
send_channel_message(f"{2050 - 1990}岁。")

# User: 晚上10点半再过3小时是几点
send_channel_message(f"是{time_after('22:30', 3, '小时')}。")

# User: 电影19:45开始，放130分钟，几点结束？
send_channel_message(f"{time_after('19:45', 130, '分钟')}结束。")

# User: 从早上8点到下午5点一共几个小时？
send_channel_message(f"一共{minutes_between('8:00', '17:00') / 60:.10g}个小时。")

# User: 今年はあと何日残っている？
send_channel_message(f"あと{days_until('12月31日')}日です。")

# User: 誕生日は5月3日です。あと何日待てばいい？
send_channel_message(f"あと{days_until('5月3日')}日です。")

# User: 2025年5月1日から2025年7月1日まで何日ある？
send_channel_message(f"{days_between('2025年5月1日', '2025年7月1日')}日あります。")

# User: 10月1日から今日まで何日経ちましたか
send_channel_message(f"{days_since('10月1日')}日経ちました。")

# User: 今年のクリスマスは何曜日？
send_channel_message(f"{weekday('クリスマス', 'ja')}です。")

# User: 昨日は何月何日でしたか？
send_channel_message(f"昨日は{date_after(-1, '日', '今日', 'ja')}でした。")

# User: 90日後は何月何日ですか？
send_channel_message(f"90日後は{date_after(90, '日', '今日', 'ja')}です。")

# User: 2週間後は何日ですか
send_channel_message(f"2週間後は{date_after(2, '週間', '今日', 'ja')}です。")

# User: 8月20日の6週間後はいつ？
send_channel_message(f"{date_after(6, '週間', '8月20日', 'ja')}です。")

# User: 4月は何日までありますか？
send_channel_message(f"4月は{days_in('4月')}日まであります。")

# User: 2024年はうるう年ですか
send_channel_message(f"2024年は{days_in('2024')}日あります。")

# User: 1969年から何年たちましたか？
send_channel_message(f"{years_since('1969')}年たちました。")

# User: 夜10時半の3時間後は何時ですか？
send_channel_message(f"{time_after('22:30', 3, '時間')}です。")

# User: 19時45分に始まる130分の映画は何時に終わる？
send_channel_message(f"{time_after('19:45', 130, '分')}に終わります。")

# User: 朝8時から夕方17時まで何時間？
send_channel_message(f"{minutes_between('8:00', '17:00') / 60:.10g}時間です。")
"""

UNITS = """
# User: How many hours are 4 days?
send_channel_message(f"4 days are {convert(4, 'days', 'hours')} hours.")

# User: how many minutes are in a week?
send_channel_message(f"A week has {convert(1, 'week', 'minutes')} minutes.")

# User: seconds in 2 hours
send_channel_message(f"2 hours have {convert(2, 'hours', 'seconds')} seconds.")

# User: how many months are in 7 years?
send_channel_message(f"7 years have {7 * 12} months.")

# User: 12 inches in centimeters
send_channel_message(f"12 inches are {convert(12, 'inches', 'centimeters')} centimeters.")

# User: how tall is 180 cm in feet?
send_channel_message(f"180 cm are {convert(180, 'cm', 'feet')} feet.")

# User: convert 10 km to miles
send_channel_message(f"10 km are {convert(10, 'km', 'miles')} miles.")

# User: how many liters are 3 gallons
send_channel_message(f"3 gallons are {convert(3, 'gallons', 'liters')} liters.")

# User: how many grams is 2.5 kg?
send_channel_message(f"2.5 kg are {convert(2.5, 'kg', 'grams')} grams.")

# User: 200 pounds to kilos
send_channel_message(f"200 pounds are {convert(200, 'pounds', 'kilos')} kilos.")

# User: 25 celsius to fahrenheit
send_channel_message(f"25 °C are {convert(25, 'celsius', 'fahrenheit')} °F.")

# User: how fast is 60 mph in km/h?
send_channel_message(f"60 mph are {convert(60, 'mph', 'km/h')} km/h.")

# User: how many megabytes are 4 gigabytes
send_channel_message(f"4 gigabytes are {convert(4, 'gigabytes', 'megabytes')} megabytes.")

# User: count the letters in the word "umbrella"
send_channel_message(f"It has {letters_in('umbrella')} letters.")

# User: how long is the word "chocolate"?
send_channel_message(f"It has {letters_in('chocolate')} letters.")

# User: number of characters in "keyboard"
send_channel_message(f"It has {letters_in('keyboard')} characters.")

# User: how many times does the letter a occur in "banana"?
send_channel_message(f"It occurs {count_in('a', 'banana')} times.")

# User: how often is the letter o in "cookbook"
send_channel_message(f"It occurs {count_in('o', 'cookbook')} times.")

# User: how many consonants does "planet" have?
send_channel_message(f"It has {count_in('consonants', 'planet')} consonants.")

# User: count the words in this sentence: the cat sat on the mat
send_channel_message(f"It has {words_in('the cat sat on the mat')} words.")

# User: how often is the word "the" in "the cat and the dog"?
send_channel_message(f"It occurs {count_in('the', 'the cat and the dog')} times.")

# User: write "window" backwards
send_channel_message(f"Backwards it is {reverse_text('window')}.")

# User: 4天是多少小时？
send_channel_message(f"4天是{convert(4, '天', '小时')}小时。")

# User: 一个星期有多少分钟
send_channel_message(f"一个星期有{convert(1, '星期', '分钟')}分钟。")

# User: 2小时等于多少秒？
send_channel_message(f"2小时等于{convert(2, '小时', '秒')}秒。")

# User: 10公里等于多少英里
send_channel_message(f"10公里等于{convert(10, '公里', '英里')}英里。")

# User: 180厘米是多少英尺？
send_channel_message(f"180厘米是{convert(180, '厘米', '英尺')}英尺。")

# User: 2.5公斤是多少克
send_channel_message(f"2.5公斤是{convert(2.5, '公斤', '克')}克。")

# User: 200磅是多少公斤？
send_channel_message(f"200磅是{convert(200, '磅', '公斤')}公斤。")

# User: 25摄氏度是多少华氏度
send_channel_message(f"是{convert(25, '摄氏度', '华氏度')}华氏度。")

# User: 3加仑等于几升？
send_channel_message(f"3加仑等于{convert(3, '加仑', '升')}升。")

# User: “chocolate”这个单词有几个字母？
send_channel_message(f"有{letters_in('chocolate')}个字母。")

# User: banana这个词里字母a出现了几次
send_channel_message(f"出现了{count_in('a', 'banana')}次。")

# User: 数一数这句话有多少个字：床前明月光
send_channel_message(f"有{letters_in('床前明月光')}个字。")

# User: 把“window”倒过来写
send_channel_message(f"倒过来是{reverse_text('window')}。")

# User: 4日は何時間ですか？
send_channel_message(f"4日は{convert(4, '日', '時間')}時間です。")

# User: 一週間は何分？
send_channel_message(f"一週間は{convert(1, '週間', '分')}分です。")

# User: 2時間は何秒ですか
send_channel_message(f"2時間は{convert(2, '時間', '秒')}秒です。")

# User: 10キロは何マイルですか？
send_channel_message(f"10キロは{convert(10, 'キロ', 'マイル')}マイルです。")

# User: 180センチは何フィート？
send_channel_message(f"180センチは{convert(180, 'センチ', 'フィート')}フィートです。")

# User: 2.5キログラムは何グラム？
send_channel_message(f"2.5キログラムは{convert(2.5, 'キログラム', 'グラム')}グラムです。")

# User: 200ポンドをキログラムに直して
send_channel_message(f"200ポンドは{convert(200, 'ポンド', 'キログラム')}キログラムです。")

# User: 摂氏25度は華氏で何度？
send_channel_message(f"華氏{convert(25, '摂氏', '華氏')}度です。")

# User: 3ガロンは何リットル？
send_channel_message(f"3ガロンは{convert(3, 'ガロン', 'リットル')}リットルです。")

# User: 「chocolate」は何文字ですか？
send_channel_message(f"{letters_in('chocolate')}文字です。")

# User: bananaという単語にaは何回出てくる？
send_channel_message(f"{count_in('a', 'banana')}回出てきます。")

# User: 「window」を逆から書いて
send_channel_message(f"逆から書くと{reverse_text('window')}です。")
"""
