#!/bin/sh
# Runs the README's two commands in this checkout, like somebody who has just cloned it: `make run`
# until its page answers, then `make test`. Ends with 0 if both went well.
set -u
limit=${LIMIT:-1800} # seconds; packages and weights are 1.2 GB
log=data/make-run.log
# Opens the printed link like a browser, which stores the cookie that it gets.
page='
import http.cookiejar, re, sys, urllib.request
link = re.search(r"http://\S+token=\S+", open(sys.argv[1]).read()).group()
jar = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
with urllib.request.build_opener(jar).open(link, timeout=10) as answer:
    print(answer.status, answer.headers.get_content_type(), "at", answer.url, len(answer.read()), "bytes")
'

began=$(date +%s)
echo "make run ..."
PORT=0 make run >"$log" 2>&1 & # a free port: another bot may run here
run=$!
gone_wrong() {
    kill "$run" 2>/dev/null
    wait "$run"
    cat "$log"
    echo "make run: $1"
    exit 1
}
while ! seen=$(python3 -c "$page" "$log" 2>/dev/null); do
    kill -0 "$run" 2>/dev/null || gone_wrong "ended before its page answered"
    [ $(($(date +%s) - began)) -lt "$limit" ] || gone_wrong "its page did not answer within $limit s"
    sleep 1
done
echo "make run: its page answered after $(($(date +%s) - began)) s: $seen"
kill "$run"
wait "$run" 2>/dev/null
[ ! -e data/running.json ] || gone_wrong "did not end in good order when it was told to"

began=$(date +%s)
make test ${ARGS:+ARGS="$ARGS"}
code=$?
echo "make test: ended with $code after $(($(date +%s) - began)) s"
exit $code
