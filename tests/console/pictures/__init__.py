"""Makes the screenshots of the console for the documents. They show a whole bot with invented
people.

::

    story.py    who the people are and what they say
    past.py     writes the four weeks before into a database
    bot.py      starts the bot, lets people talk to it and sets it up as an operator does
    __main__.py opens each page in a browser and saves its picture: ``make pictures``
"""
