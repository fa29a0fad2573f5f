"""A list of English words that praise or blame, written for this project, as an outside check of directions."""

from __future__ import annotations


def _words(listed: str) -> list[str]:
    return listed.split()


POSITIVE = frozenset(
    _words(
        """
        admirable adorable affecting amazing amusing astonishing atmospheric authentic awesome beautiful beautifully
        best better bravo breathtaking brilliant brilliantly captivating charismatic charm charming clever compelling
        convincing cool credible dazzling delight delighted delightful deserves effective elegant endearing engaging
        enjoy enjoyable enjoyed enjoying entertained entertaining enthralling epic excellent excellently exceptional
        excited exciting exquisite extraordinary fabulous fantastic fascinated fascinating favorite favourite fine
        finest flawless fresh fun funniest funny gem genius genuine good gorgeous great greatest gripping happy
        haunting heartfelt heartwarming hilarious honest impressed impressive incredible incredibly inspired inspiring
        intelligent interesting intriguing joy likable likeable liked lovable love loved lovely loves magic magical
        magnificent marvelous masterful masterpiece memorable mesmerizing moving nice original outstanding perfect
        perfection perfectly pleasant pleased pleasure poignant powerful praise precious realistic recommend
        recommended refreshing remarkable rewarding rich satisfying sensational smart solid spectacular splendid
        stellar strong stunning sublime subtle succeeds superb superbly surprised suspenseful sweet talented tender
        terrific thoughtful thrilling timeless top touched touching treasure treat triumph unforgettable unique
        uplifting warm well wins witty won wonder wonderful wonderfully worth worthwhile worthy
        """
    )
)
NEGATIVE = frozenset(
    _words(
        """
        absurd abysmal amateur amateurish annoyed annoying appalling atrocious avoid awful awfully awkward bad badly
        bland bomb bore bored boredom boring bother bothered cheap cheesy cliche cliched cliches clumsy confused
        confusing contrived crap crappy dire disappoint disappointed disappointing disappointment disaster disgusting
        dismal dreadful dreary drivel dull dumb embarrassed embarrassing empty excruciating fail failed fails failure
        fake flat flawed flaws forced forgettable garbage generic ghastly hate hated hideous hollow hopeless
        horrendous horrible horribly idiotic ill implausible inane incoherent incompetent incomprehensible inept
        inferior insipid insult insulting irritating joke junk lack lacked lacking lacks lame laughable lazy lifeless
        lousy ludicrous mediocre mess mindless miscast miserable mistake moronic nasty nonsense nonsensical obnoxious
        offensive overrated painful painfully pathetic plodding pointless poor poorly predictable pretentious problem
        problems regret repetitive repulsive ridiculous rubbish ruined sadly shallow shame shoddy silly sloppy slow
        stereotypical stinker stinks stupid stupidity suck sucked sucks tedious terrible terribly tired tiresome trash
        trite turkey ugly unbearable unbelievable unconvincing uneven unfortunately unfunny uninspired uninteresting
        unnecessary unoriginal unpleasant unrealistic unwatchable useless wannabe waste wasted wasting weak weakest
        wooden worse worst worthless wretched yawn
        """
    )
)


def sign(word: str) -> int:
    """1 for a word that praises, -1 for one that blames, 0 for any other.

    >>> sign("Wonderful"), sign("dull"), sign("film")
    (1, -1, 0)
    """
    word = word.lower()
    return (word in POSITIVE) - (word in NEGATIVE)
