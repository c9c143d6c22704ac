/**
 * Checks the subjects of commits: `node .ci/subjects.mjs [BASE]`. It looks at the newest 50 commits
 * and at all commits since BASE, where this clone knows it; default is origin/main. Merges don't
 * count.
 */
import { spawnSync } from 'node:child_process';
import { argv, exit, stderr } from 'node:process';

const MAX_LENGTH = 72;
const FORM = /^[a-z0-9 ,/-]+: \S/;
const LEAST_COMMITS = 50;

const git = (...args) => spawnSync('git', args, { encoding: 'utf8' });
const commits = (...range) => {
  const { status, stdout, stderr: complaint } = git('log', '--no-merges', '--format=%h %s', ...range);
  if (status !== 0) throw new Error(`the commits can't be read: ${complaint}`);
  return stdout.split('\n').filter((line) => line !== '');
};

const [, , base = 'origin/main'] = argv;
const isKnown = git('cat-file', '-e', `${base}^{commit}`).status === 0;
const newest = commits(`--max-count=${LEAST_COMMITS}`, 'HEAD');
const checked = new Set([...newest, ...(isKnown ? commits(`${base}..HEAD`) : [])]);
const subjectOf = (commit) => commit.slice(commit.indexOf(' ') + 1);
const wrong = [...checked].filter((commit) => subjectOf(commit).length > MAX_LENGTH || !FORM.test(subjectOf(commit)));
for (const commit of wrong) {
  stderr.write(`commit ${commit}: its subject must be 'room: what it does', at most ${MAX_LENGTH} characters\n`);
}
if (wrong.length > 0) stderr.write("'git rebase --interactive' with 'reword' changes a subject\n");
exit(wrong.length === 0 ? 0 : 1);
