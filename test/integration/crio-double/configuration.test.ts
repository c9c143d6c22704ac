import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'toml';
import { afterEach, describe, expect, it } from 'vitest';
import { getOverSocket } from '../../support/crio-double/cri/cri-client.ts';
import { type CrioDouble, type StartOptions, startCrioDouble } from '../../support/crio-double/start-crio-double.ts';
import { have } from '../../support/requirements.ts';

const dropIns = 'etc/crio/crio.conf.d';
const pins = (...names: string[]) => `[crio.image]\npinned_images = ${JSON.stringify(names)}\n`;

describe.runIf(have('root', 'skopeo'))('configuration of the CRI-O double', () => {
  const running: CrioDouble[] = [];
  const bases: string[] = [];

  const start = async (options: StartOptions = {}) => {
    const double = await startCrioDouble(options);
    running.push(double);
    return double;
  };

  const directory = () => {
    const base = mkdtempSync(join(tmpdir(), 'crio-double-'));
    bases.push(base);
    mkdirSync(join(base, dropIns), { recursive: true });
    return base;
  };

  afterEach(async () => {
    await Promise.all(running.splice(0).map((double) => double.stop()));
    for (const base of bases.splice(0)) rmSync(base, { recursive: true, force: true });
  });

  it('docs/runtime-facts.md, fact 1: reads crio.conf, then every file below the drop-in directory in lexical order, whatever its name', async () => {
    const base = directory();
    const double = await start({
      base,
      files: {
        'etc/crio/crio.conf':
          '[crio.image]\npause_image = "a.example.com/pause:1"\n[crio.runtime]\nlog_level = "debug"\n',
        [`${dropIns}/10-first.conf`]: pins('first'),
        [`${dropIns}/20-directory/deep/file.txt`]: pins('second'),
        [`${dropIns}/.hidden`]: '[crio.image]\npause_image = "b.example.com/pause:2"\n',
        'run/crio/crio.conf.d/99-elsewhere.conf': pins('elsewhere'),
      },
    });
    const config = await configOf(double);
    expect(config.image.pause_image).toBe('b.example.com/pause:2');
    expect(config.runtime.log_level).toBe('debug');
    expect(config.image.pinned_images).toEqual(['second', 'b.example.com/pause:2']);
    writeFileSync(join(base, dropIns, '20-directory/zz.bak~'), pins('third'));
    expect(await double.reloadAndWait()).toBeUndefined();
    expect((await configOf(double)).image.pinned_images).toEqual(['third']);
  });

  it('docs/runtime-facts.md, fact 2: does not start with a dangling link in the drop-in directory', async () => {
    const base = directory();
    symlinkSync('/nonexistent/99-pins.conf', join(base, dropIns, '99-pins.conf'));
    await expect(start({ base })).rejects.toThrow(
      /update config from path: walk path: open .*99-pins\.conf: no such file or directory/,
    );
  });

  it('docs/runtime-facts.md, fact 2: does not start with a link to a directory', async () => {
    const base = directory();
    symlinkSync('/tmp', join(base, dropIns, '50-link'));
    await expect(start({ base })).rejects.toThrow(/walk path: read .*50-link: is a directory/);
  });

  it('docs/runtime-facts.md, fact 2: a dangling link fails a reload as a whole', async () => {
    const base = directory();
    const double = await start({ base, files: { [`${dropIns}/10-a.conf`]: pins('old') } });
    writeFileSync(join(base, dropIns, '10-a.conf'), pins('new'));
    symlinkSync('/nonexistent', join(base, dropIns, '99-pins.conf'));
    expect(await double.reloadAndWait()).toMatch(/99-pins\.conf: no such file or directory/);
    expect((await configOf(double)).image.pinned_images).toContain('old');
  });

  it('docs/runtime-facts.md, fact 2: an empty file is fine', async () => {
    const double = await start({ files: { [`${dropIns}/10-a.conf`]: pins('kept'), [`${dropIns}/99-empty.conf`]: '' } });
    expect((await configOf(double)).image.pinned_images).toContain('kept');
  });

  it('docs/runtime-facts.md, fact 3: pinned_images outside [crio.image] is silently ignored', async () => {
    const double = await start({ files: { [`${dropIns}/10-a.conf`]: 'pinned_images = ["lost"]\n[crio]\n' } });
    expect((await configOf(double)).image.pinned_images).not.toContain('lost');
  });

  it('docs/runtime-facts.md, fact 4: a later list replaces the earlier one, an absent one does not', async () => {
    const double = await start({
      files: {
        [`${dropIns}/10-a.conf`]: pins('a'),
        [`${dropIns}/20-b.conf`]: pins('b', 'c'),
        [`${dropIns}/30-c.conf`]: '[crio.image]\n',
      },
    });
    const { pinned_images } = (await configOf(double)).image;
    expect(pinned_images.slice(0, -1)).toEqual(['b', 'c']);
  });

  it('docs/runtime-facts.md, fact 5: a reload takes effect later, not when the signal is sent', async () => {
    const double = await start({ reloadDelayMs: 400, files: { [`${dropIns}/10-a.conf`]: pins('old') } });
    writeFileSync(join(double.dirs.crioDropIns, '10-a.conf'), pins('new'));
    double.reload();
    expect((await configOf(double)).image.pinned_images).toContain('old');
    await double.waitForLog(/Configuration reload completed/);
    expect((await configOf(double)).image.pinned_images).toEqual(['new']);
  });

  it('docs/runtime-facts.md, fact 5: a bad file in the drop-in directory makes the whole reload fail', async () => {
    const double = await start({ files: { [`${dropIns}/10-a.conf`]: pins('old') } });
    writeFileSync(join(double.dirs.crioDropIns, '10-a.conf'), pins('new'));
    writeFileSync(join(double.dirs.crioDropIns, '20-bad.conf'), '[crio.image\n');
    expect(await double.reloadAndWait()).toMatch(/unable to decode configuration .*20-bad\.conf/);
    expect((await configOf(double)).image.pinned_images).toContain('old');
    writeFileSync(join(double.dirs.crioDropIns, '20-bad.conf'), '[crio.image]\npinned_images = "no list"\n');
    expect(await double.reloadAndWait()).toMatch(/20-bad\.conf/);
  });

  it('docs/runtime-facts.md, fact 5: a bad registries configuration shows new pins in GET /config although the reload failed', async () => {
    const double = await start({ files: { [`${dropIns}/10-a.conf`]: pins('old') } });
    writeFileSync(join(double.dirs.crioDropIns, '10-a.conf'), pins('new'));
    writeFileSync(join(double.dirs.registriesDropIns, '50-bad.conf'), '[[registry]]\nblocked = true\n');
    expect(await double.reloadAndWait()).toMatch(/system registries reload failed: .*50-bad\.conf/);
    expect((await configOf(double)).image.pinned_images).toEqual(['new']);
  });

  it('docs/runtime-facts.md, fact 5: several signals during a reload lead to one more', async () => {
    const double = await start({ reloadDelayMs: 300 });
    for (let count = 0; count < 5; count += 1) {
      double.reload();
      await getOverSocket(double.socketPath, '/config');
    }
    await double.waitForLog(/(?:[\s\S]*Configuration reload completed){2}/);
    writeFileSync(join(double.dirs.crioDropIns, '10-a.conf'), pins('last'));
    expect(await double.reloadAndWait()).toBeUndefined();
    expect((await configOf(double)).image.pinned_images).toEqual(['last']);
    expect(double.log().match(/msg="Reloading configuration"/g)).toHaveLength(3);
  });

  it('docs/runtime-facts.md, fact 6: GET /config answers TOML on the CRI socket; other paths are not found', async () => {
    const double = await start({
      files: { [`${dropIns}/10-a.conf`]: '[crio.image]\npull_progress_timeout = "10s"\n' },
    });
    const answer = await getOverSocket(double.socketPath, '/config');
    expect(answer).toMatchObject({ status: 200, contentType: 'application/toml' });
    expect((await configOf(double)).image.pull_progress_timeout).toBe('10s');
    expect((await getOverSocket(double.socketPath, '/nothing')).status).toBe(404);
  });

  it('docs/runtime-facts.md, fact 7: leaves a directory made in its run directory before the start alone', async () => {
    const double = await start({ files: { 'run/crio/crio.conf.d/99-stickpin.conf': pins('a') } });
    const { dirs } = double;
    symlinkSync(join(dirs.run, 'crio.conf.d/99-stickpin.conf'), join(dirs.crioDropIns, '99-stickpin.conf'));
    expect(await double.reloadAndWait()).toBeUndefined();
    expect((await configOf(double)).image.pinned_images).toEqual(['a']);
  });

  it('a configuration directory that was missing at the start is not read by a reload', async () => {
    const base = directory();
    const elsewhere = join(base, 'elsewhere');
    const double = await start({ base, flags: [`--config-dir=${elsewhere}`] });
    mkdirSync(elsewhere);
    writeFileSync(join(elsewhere, '10-a.conf'), pins('late'));
    expect(await double.reloadAndWait()).toBeUndefined();
    expect((await configOf(double)).image.pinned_images).not.toContain('late');
  });

  it('the pattern * in pinned_images makes it panic', async () => {
    const double = await start();
    const ended = once(double.process, 'close');
    writeFileSync(join(double.dirs.crioDropIns, '10-a.conf'), pins('*'));
    double.reload();
    expect(await ended).toEqual([2, null]);
  });

  it('a bad registries configuration keeps it from starting', async () => {
    const files = { 'etc/containers/registries.conf': 'unqualified-search-registries = 7\n' };
    await expect(start({ files })).rejects.toThrow(/invalid registries: .*registries\.conf/);
  });
});

interface Config {
  readonly image: {
    readonly pinned_images: string[];
    readonly pause_image: string;
    readonly pull_progress_timeout: string;
  };
  readonly runtime: { readonly log_level: string };
}

async function configOf(double: CrioDouble): Promise<Config> {
  const { body } = await getOverSocket(double.socketPath, '/config');
  return (parse(body) as { crio: Config }).crio;
}
