import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { writeRegistryStorage } from '../../support/bundles/registry-storage.ts';
import { sampleImage, writeOciLayout } from '../../support/bundles/sample-image.ts';
import { sampleRelease } from '../../support/bundles/sample-release.ts';
import { folderForEach } from '../../support/files/temporary-folder.ts';
import { have, program } from '../../support/requirements.ts';
import { runCommand } from '../../support/run-command.ts';

const root = folderForEach();
const at = (name: string) => join(root, name);
const app = sampleImage({ seed: 'app', architecture: 'amd64', withIndex: true });
const named = ['--name', 'shop', '--version', '1.0.0', '--arch', 'amd64'];

/** The error of a call; nothing in it or beside the target is ours. */
async function errorOf(...more: readonly string[]): Promise<string> {
  const { exitCode, stderr } = await runCommand([
    ...['bundle', 'create', '--sequence', '1', '--out', at('work/bundle')],
    ...more,
  ]);
  rmSync(at('work'), { recursive: true, force: true });
  if (exitCode === 0) return '';
  const error = stderr.replace(/^warning: .*\n/gm, '');
  expect(error).not.toMatch(/partial-|\.fetched|incoming/);
  return error;
}

/** The errors of calls, each with a file of `folder` removed, or with another first byte. */
async function errorsOf(folder: string, call: () => readonly string[]): Promise<string[]> {
  const errors: string[] = [];
  const isFile = (name: string) => statSync(join(at(folder), name)).isFile();
  for (const file of readdirSync(at(folder), { recursive: true, encoding: 'utf8' }).filter(isFile)) {
    for (const isRemoved of [true, false]) {
      cpSync(at(folder), at('damaged'), { recursive: true });
      const path = join(at('damaged'), file);
      const [first = 0, ...rest] = readFileSync(path);
      if (isRemoved) rmSync(path);
      else writeFileSync(path, Buffer.from([first ^ 1, ...rest]));
      errors.push(await errorOf(...call()));
      rmSync(at('damaged'), { recursive: true });
    }
  }
  return errors.filter((error) => error !== '');
}

describe('the errors of bundle create name what is damaged, never a file of ours', () => {
  it('in an archive', async () => {
    writeOciLayout(at('layout'), [{ image: app, names: ['quay.example.com/x/app:1'] }]);
    const errors = await errorsOf('layout', () => {
      execFileSync('tar', ['cf', at('a.tar'), '-C', at('damaged'), '.']);
      return [...named, '--archive', at('a.tar')];
    });
    expect(errors.length).toBeGreaterThan(8);
    for (const error of errors) expect(error).toContain(at('a.tar'));
    for (const error of errors.filter((one) => !one.includes('index.json')))
      expect(error).toMatch(/quay\.example\.com\/x\/app:1|blobs\/sha256\/[0-9a-f]{64} is damaged/);
  });

  it.runIf(have(program('xorriso', 'apt-get install xorriso')))(
    'on an OpenShift medium',
    async () => {
      const other = sampleImage({ seed: 'other', architecture: 'amd64' });
      const payload = [{ name: 'other', reference: `quay.io/x/other@${other.top.digest}` }];
      const release = sampleRelease(payload, { labels: { 'io.openshift.release': '4.13.7' } });
      writeRegistryStorage(at('medium'), [
        { repository: 'openshift/release-images', image: release, tags: [release.top.digest.slice(7)] },
        { repository: 'openshift/release', image: other, tags: [] },
      ]);
      const errors = await errorsOf('medium', () => {
        rmSync(at('a.iso'), { force: true });
        const args = ['-as', 'mkisofs', '-quiet', '-V', 'upgrade', '-R', '-J', '-o', at('a.iso'), at('damaged')];
        execFileSync('xorriso', args, { stdio: 'ignore' });
        return ['--from-openshift-iso', at('a.iso')];
      });
      expect(errors.length).toBeGreaterThan(8);
      for (const error of errors) expect(error).toContain(at('a.iso'));
    },
    300_000,
  );

  it('where skopeo fails in the middle', async () => {
    mkdirSync(at('bin'));
    const lines = [
      '#!/bin/sh',
      'for to; do :; done',
      `case "$*" in *inspect*) echo '{"schemaVersion":2}'; exit;; esac`,
      `printf 'time="x" level=fatal msg="storing blob to file \\\\"%s/blob1\\\\": no space left on device"\\n' "\${to#dir:}" >&2`,
      'exit 1',
    ];
    writeFileSync(at('bin/skopeo'), lines.join('\n'));
    chmodSync(at('bin/skopeo'), 0o755);
    vi.stubEnv('PATH', `${at('bin')}:${process.env.PATH}`);
    try {
      const error = await errorOf(...named, '--image', 'quay.example.com/x/app:1', '--referrers', 'none');
      expect(error).toContain(
        'quay.example.com/x/app:1 from docker://quay.example.com/x/app:1 can\'t be fetched: storing blob to file "the new bundle/blob1": no space left on device',
      );
    } finally {
      vi.unstubAllEnvs();
    }
  });
});
