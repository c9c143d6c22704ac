import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { beforeAll, describe, expect, it } from 'vitest';
import { definedProgram, manualCommands } from '../../../src/cli/manual.ts';
import { folderForAll } from '../../support/files/temporary-folder.ts';
import { have, withHelpers } from '../../support/requirements.ts';

const folder = folderForAll();
const [program, ...commands] = manualCommands(definedProgram());
const pageOf = (path: string) => join(folder, `stickpin-${path.replaceAll(' ', '-')}.1.gz`);
const sourceOf = (page: string) => gunzipSync(readFileSync(page)).toString();

/** As a reader sees it, in one line. */
function shown(page: string): string {
  const env = { ...process.env, MANWIDTH: '1000', LC_ALL: 'C.UTF-8' };
  const text = execFileSync('man', ['--local-file', page], { env, encoding: 'utf8', stdio: 'pipe' });
  return text.replace(/\s+/g, ' ').replace(/[‐−]/g, '-');
}

const needs = [withHelpers('man', 'apt-get install man-db'), withHelpers('lexgrog', 'apt-get install man-db')];

describe.runIf(have(...needs))('the manual pages', () => {
  beforeAll(() => {
    const script = 'import(process.argv[1]).then(({ stageManual }) => stageManual(process.argv[2]))';
    execFileSync(process.execPath, ['-e', script, join(process.cwd(), 'packaging/stage/manual-pages.mjs'), folder]);
  }, 120_000);

  it('are one for each command, with all its parts, and four others', () => {
    const names = commands.map(({ path }) => `stickpin-${path.replaceAll(' ', '-')}.1.gz`);
    const others = ['stickpin.1.gz', 'stickpin-bundle.5.gz', 'stickpin.service.8.gz', 'stickpin.toml.5.gz'];
    expect(readdirSync(folder).sort()).toEqual([...names, ...others].sort());
    const parts = ['NAME', 'SYNOPSIS', 'DESCRIPTION', 'OPTIONS', 'EXIT STATUS', 'ENVIRONMENT', 'SEE ALSO'];
    for (const { path } of commands) {
      const heads = [...sourceOf(pageOf(path)).matchAll(/^\.SH (.+)$/gm)].map(([, head]) => head);
      expect(heads, path).toEqual(expect.arrayContaining(parts));
      expect(sourceOf(pageOf(path)), path).not.toContain('Flags:');
    }
  });

  it('lead to pages that exist', () => {
    const there = new Set(readdirSync(folder).map((name) => name.replace(/\.(\d)\.gz$/, '($1)')));
    for (const name of readdirSync(folder).filter((one) => one.endsWith('.1.gz'))) {
      const also = sourceOf(join(folder, name)).split('.SH SEE ALSO\n')[1] ?? '';
      const named = [...also.matchAll(/^\.BR (\S+) (\(\d\))/gm)].map(
        ([, page = '', at]) => `${page.replaceAll('\\', '')}${at}`,
      );
      expect(named.length, name).toBeGreaterThan(1);
      for (const one of named) expect(there, name).toContain(one);
    }
  });

  it('name the files and variables that the command uses, and no others', () => {
    const create = sourceOf(pageOf('bundle create'));
    expect(create).toContain('.TP\n\\fBSOURCE_DATE_EPOCH\\fR\n');
    expect(create).not.toContain('DBUS_SYSTEM_BUS_ADDRESS');
    const status = sourceOf(pageOf('status'));
    expect(status).toContain('\\fBDBUS_SYSTEM_BUS_ADDRESS\\fR');
    expect(status).toContain('\\fB/run/stickpin/status.json\\fR');
    expect(status).not.toContain('STICKPIN_PASSPHRASE');
  });

  it('say of each command what its definition says', () => {
    const overview = shown(join(folder, 'stickpin.1.gz'));
    expect(overview).toContain(`SYNOPSIS ${program?.usage} `);
    for (const { path, usage, description, operands, options, example = '' } of commands) {
      const page = `stickpin-${path.replaceAll(' ', '-')}`;
      expect(overview.toLowerCase()).toContain(` ${page}(1) ${description}`.toLowerCase());
      const text = shown(pageOf(path));
      expect(text).toContain(` NAME ${page} - ${description} SYNOPSIS ${usage} DESCRIPTION `);
      for (const { term } of [...operands, ...options]) expect(text, path).toContain(` ${term} `);
      expect(text, path).toContain(` ${example.replace(/\s+/g, ' ')} `);
    }
  });

  it('are shown without a warning, found by their names, and clean for mandoc', () => {
    const isLinted = have('mandoc');
    for (const name of readdirSync(folder)) {
      const page = join(folder, name);
      const script = 'MANWIDTH=80 man --warnings --local-file "$1" 2>&1 >/dev/null; lexgrog "$1"';
      const said = execFileSync('sh', ['-c', script, 'sh', page], { encoding: 'utf8', stdio: 'pipe' });
      expect(said).toMatch(new RegExp(`^${page}: "${name.replace(/\.\d\.gz$/, '')} - [^\n]+"\n$`));
      if (!isLinted) continue;
      const lint = execFileSync('sh', ['-c', 'zcat "$1" | mandoc -T lint', 'sh', page], { encoding: 'utf8' });
      expect(lint).toBe('');
    }
  });
});
