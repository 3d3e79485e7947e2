#!/bin/sh
# Usage: run_tests.sh PYTEST [ARGUMENT...]
#
# Run pytest. If a few tests failed, run each of them once more, with nothing beside it. Whole
# programs share the processors with other tests, and one that fails only then is reported, and does
# not fail the run. See docs/decisions/0066-failed-tests-run-once-more-alone.md.
most=5
pytest=$1
shift

"$pytest" --cache-clear "$@"
status=$?
[ $status -eq 1 ] || exit $status

failed=$("$pytest" "$@" --numprocesses 0 --last-failed --collect-only -q 2>/dev/null | grep '::')
count=$(printf '%s\n' "$failed" | grep -c '::')
if [ "$count" -eq 0 ] || [ "$count" -gt $most ]; then
    exit 1
fi

echo
echo "$count failed among others. Each is run once more, alone:"
"$pytest" "$@" --numprocesses 0 --last-failed || exit 1

echo
echo "UNSTEADY: these failed among others and passed alone. Each has a race, or the bot has one:"
printf '%s\n' "$failed"
