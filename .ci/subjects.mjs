/**
 * Checks the subjects of commits: `node .ci/subjects.mjs [BASE]`. It looks at the newest commit and, when BASE is
 * known to this clone, at all commits since BASE. Merges don't count.
 */
import { spawnSync } from 'node:child_process';
import { argv, exit, stderr } from 'node:process';

const MAX_LENGTH = 72;
const FORM = /^[a-z0-9 ,/-]+: \S/;

const git = (...args) => spawnSync('git', args, { encoding: 'utf8' });
const subjects = (...range) =>
  git('log', '--no-merges', '--format=%s', ...range)
    .stdout.split('\n')
    .filter((subject) => subject !== '');

const [, , base] = argv;
const isKnown = base !== undefined && git('cat-file', '-e', `${base}^{commit}`).status === 0;
const checked = new Set([...subjects('-1', 'HEAD'), ...(isKnown ? subjects(`${base}..HEAD`) : [])]);
const wrong = [...checked].filter((subject) => subject.length > MAX_LENGTH || !FORM.test(subject));
for (const subject of wrong) {
  stderr.write(`commit subject: '${subject}' must be 'room: what it does', at most ${MAX_LENGTH} characters\n`);
}
exit(wrong.length === 0 ? 0 : 1);
