import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import packageJson from '../../../package.json' with { type: 'json' };
import { commandsOf } from '../../support/docs/marked-blocks.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { archiveNeed } from '../../support/packages/make-packages.ts';
import { have, withHelpers } from '../../support/requirements.ts';
import { execute } from '../../support/rootfs/execute.ts';

const source = fileURLToPath(new URL('../../../', import.meta.url));
const needs = [archiveNeed, withHelpers('git', 'apt-get install git'), withHelpers('rpmbuild', 'apt-get install rpm')];
const VERSION = '987.6.5';
const ARCHITECTURE = ['--arch', process.arch];
const SAMPLE = 'stickpin.example';

describe.runIf(have('npm', 'openssl', ...needs))('npm run release', () => {
  const work = folderForAll();
  // rpmbuild takes no blank in a path, and somebody's folder has one.
  const repository = join(work, 'a clone');
  const key = join(work, 'release.key');

  const shell = (command: string, cwd = repository) => execute(['/bin/sh', '-ec', command], { cwd });
  const git = async (...args: string[]) => (await execute(['git', ...args], { cwd: repository })).trim();
  const textOf = (path: string) => readFileSync(join(repository, path), 'utf8');
  const release = (...args: string[]) =>
    spawnSync('npm', ['run', '--silent', 'release', '--', ...args], { cwd: repository, encoding: 'utf8' });

  /** What a release changes, and what it must leave behind nowhere. */
  async function state() {
    const [head, tags, changes, worktrees] = [
      await git('rev-parse', 'HEAD'),
      await git('tag', '--list'),
      await git('status', '--porcelain'),
      await git('worktree', 'list'),
    ];
    return { head, tags, changes, worktrees: worktrees.split('\n').length };
  }

  beforeAll(async () => {
    await shell(`git ls-files -z --cached --others --exclude-standard | xargs -0 cp -a --parents -t '${work}'`, source);
    await shell(
      `mkdir clone && find . -mindepth 1 -maxdepth 1 ! -name clone -exec mv -t clone {} + && mv clone 'a clone'
      cp -al '${source}/node_modules' 'a clone' || cp -a '${source}/node_modules' 'a clone'`,
      work,
    );
    await shell(`git init --quiet && git config user.name Somebody && git config user.email somebody@${SAMPLE}
      git add --all && git commit --quiet --message sources`);
    await shell(commandsOf('docs/install.md', 'make').split('\n').slice(0, 2).join('\n'), work);
  });

  it('with --dry-run makes everything, marks what a release refuses, and changes nothing', async () => {
    const before = await state();
    const { status, stdout, stderr } = release('--dry-run', ...ARCHITECTURE, '--format', 'rpm', '--sign-key', key);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    const marks = [...stdout.matchAll(/^A release is refused: (.*)$/gm)].map(([, fault]) => fault);
    expect(marks).toEqual([
      'SECURITY.md: the line that begins with "Address:" has no address',
      `package.json: the address in "author" is an example: ${packageJson.author}`,
      `package.json: "homepage" is an example: ${packageJson.homepage}`,
    ]);
    expect(await state()).toEqual(before);
    const names = readdirSync(join(repository, 'dist/dry-run')).join(' ');
    for (const end of ['rpm', 'cdx.json', 'provenance.json']) expect(names).toContain(`.${end}`);
    expect(names).not.toContain(packageJson.version);
    expect(names).not.toContain('.sig');
  }, 600_000);

  it('refuses what the dry run marks, and makes nothing', async () => {
    const before = await state();
    writeFileSync(join(repository, 'new-file'), '');
    const { status, stdout, stderr } = release(VERSION, join(work, 'refused'), ...ARCHITECTURE);
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' });
    expect(stderr).toMatch(new RegExp(`^release: ${VERSION} is not released:\nthe working tree has changes(.*\n){5}$`));
    await shell('rm new-file');
    expect(await state()).toEqual(before);
    expect(existsSync(join(work, 'refused'))).toBe(false);
  });

  it('sets version and date, commits, tags and signs what anybody can make again from the tag', async () => {
    await shell(`sed -i 's/${SAMPLE}/stickpin.dev/' package.json
      sed -i 's/^Address: .*/Address: <security@stickpin.dev>/' SECURITY.md
      git commit --quiet --all --message addresses`);
    const before = await state();
    const made = join(work, 'made');
    const options = [...ARCHITECTURE, '--format', 'archive'];
    // What git refuses at the end leaves neither a commit nor a tag.
    await git('config', 'tag.gpgSign', 'true');
    await git('config', 'gpg.program', 'false');
    expect(release(VERSION, join(work, 'refused'), ...options, '--sign-key', key).status).toBe(1);
    expect(await state()).toEqual(before);
    await git('config', 'tag.gpgSign', 'false');

    const { status, stdout, stderr } = release(VERSION, made, ...options, '--sign-key', key);
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).not.toContain('refused');

    const after = await state();
    expect(after).toEqual({ ...before, head: after.head, tags: `v${VERSION}` });
    expect(await git('rev-parse', `v${VERSION}^{commit}`)).toBe(after.head);
    expect(await git('log', '--format=%s', `${before.head}..HEAD`)).toBe(`release: ${VERSION}`);
    const today = await git('log', '-1', '--format=%cs');
    expect(textOf('CHANGELOG.md')).toContain(`## [Unreleased]\n\n## [${VERSION}] - ${today}\n\n`);
    for (const file of ['package.json', 'package-lock.json', 'docs/examples/ansible/stickpin.yml'])
      expect(textOf(file)).toContain(VERSION);

    await shell(`cp '${work}/release.pub' .\n${commandsOf('docs/install.md', 'verify')}`, made);
    const notes = readFileSync(join(made, 'RELEASE-NOTES.md'), 'utf8');
    expect(notes).toMatch(new RegExp(`^# stickpin ${VERSION} \\(${today}\\)\n`));
    await shell(`tar -xzf *.tar.gz`, made);
    const folder = `stickpin-${VERSION}-linux-${process.arch}`;
    expect(await shell(`./${folder}/stickpin --version`, made)).toBe(`${VERSION}\n`);
    expectProvenance(JSON.parse(readFileSync(join(made, `stickpin-${VERSION}.provenance.json`), 'utf8')), after.head);

    await execute([process.execPath, 'packaging/package.mjs', join(work, 'again'), ...options], { cwd: repository });
    expect(readFileSync(join(work, 'again/SHA256SUMS'), 'utf8')).toBe(readFileSync(join(made, 'SHA256SUMS'), 'utf8'));

    expect(release(VERSION, '--dry-run', '--format', 'none').stderr).toContain('known are archive');
    expect(release(VERSION, made, '--dry-run').stderr).toBe(`release: ${made} is not empty: name another folder\n`);
    expect(release('1.2').stderr).toBe('release: name the version: npm run release -- 1.2.3 --sign-key release.key\n');
  }, 600_000);

  function expectProvenance(statement: Record<string, unknown>, gitCommit: string) {
    const sumOf = (path: string) => createHash('sha256').update(readFileSync(path)).digest('hex');
    const archive = `stickpin-${VERSION}-linux-${process.arch}.tar.gz`;
    expect(statement).toMatchObject({
      _type: 'https://in-toto.io/Statement/v1',
      subject: [{}, { name: archive, digest: { sha256: sumOf(join(work, 'made', archive)) } }],
      predicateType: 'https://slsa.dev/provenance/v1',
      predicate: {
        buildDefinition: {
          externalParameters: { version: VERSION, arch: [process.arch], format: ['archive'] },
          resolvedDependencies: [
            { name: 'source', digest: { gitCommit } },
            { name: 'package-lock.json', digest: { sha256: sumOf(join(repository, 'package-lock.json')) } },
            { uri: expect.stringMatching(/^pkg:npm\/node-linux-.+@24\./), digest: { sha512: expect.any(String) } },
          ],
        },
        runDetails: { builder: { version: { tar: expect.stringContaining('tar') } } },
      },
    });
    expect(JSON.stringify(statement)).not.toContain('changed');
  }
});
