import assert from 'node:assert/strict';
import * as v from 'valibot';
import { redactedFile } from '../../../src/cli/output/redact.ts';
import { loadSettings } from '../../../src/config/load-settings.ts';
import { loadUsableSettings } from '../../../src/config/usable-settings.ts';
import { parseSightings, sightingsText } from '../../../src/domain/fleet/sightings.ts';
import { BusProtocolError, createFrameReader, type MessageHeader, readBody } from '../../../src/host/bus/frames.ts';
import { parseUdevProperties, unitNameOfPath } from '../../../src/media/device/device.ts';
import { isInFstab, parseFstab } from '../../../src/media/mounts.ts';
import { parseMountinfo } from '../../../src/platform/files/mountinfo.ts';
import { clip, cutAtWord, decodeText, oneLine, plainDocument } from '../../../src/platform/plain-text.ts';
import { diagReply, diagRequest } from '../../../src/registry/sock-diag.ts';
import { uidsIn } from '../../../src/registry/tcp-table.ts';
import { parseToml } from '../../../src/runtime/config/config-file.ts';
import { tomlTableLines } from '../../../src/runtime/config/toml-text.ts';
import { reportedConfig } from '../../../src/runtime/containerd/containerd-config.ts';
import { parseHostsToml, renderHostsToml, withAbsolutePaths } from '../../../src/runtime/containerd/hosts-toml.ts';
import { effectivePins } from '../../../src/runtime/crio/crio-config.ts';
import { parsePinsDropIn, recoverPins, renderPinsDropIn } from '../../../src/runtime/crio/pins-drop-in.ts';
import {
  mergeRegistries,
  mirroredRepositories,
  parseRegistriesDropIn,
  renderRegistriesDropIn,
} from '../../../src/runtime/crio/registries.ts';
import { container, containerDetails, image, imageDetails, info } from '../../../src/runtime/docker/engine-answers.ts';
import { loopbackNames, toRuntimeImage } from '../../../src/runtime/docker/image-names.ts';
import { pinOf } from '../../../src/runtime/docker/pins.ts';
import {
  hooksDocument,
  parseFloors,
  parseHooks,
  parsePauses,
  parsePins,
} from '../../../src/store/database/documents.ts';
import { openSeal, sealed } from '../../../src/store/files/sealed-file.ts';
import { cut, json, parts, read, readLater, type Target, withFile } from '../target.ts';

const never = new AbortController().signal;
const mirror = { authority: '127.0.0.1:5000', token: '0'.repeat(32) };
const crio = {
  configPath: '/etc/a.conf',
  configDirectory: '/etc/a.conf.d',
  linkPath: '/etc/a.conf.d/99-stickpin.conf',
};

/** Settings with a fault are refused, and the usable part of them is good enough to start with. */
const settings: Target = (data) =>
  withFile(data, async (file) => {
    const loaded = await readLater(() => loadSettings({ fragments: [{ file }] }, never));
    const usable = await loadUsableSettings({ fragments: [{ file }] }, undefined, never);
    assert.equal(usable.fault === undefined, loaded !== undefined);
    if (loaded !== undefined) assert.deepEqual(usable.settings, loaded);
  });

/** Files of other programs, and what is written beside them reads back. */
const runtimeConfig: Target = (data) => {
  const text = data.toString();
  const parsed = parseToml(text);
  if (parsed.kind === 'table') {
    assert.deepEqual(parseToml(tomlTableLines(parsed.table).join('\n')), parsed);
    const hosts = { registry: 'quay.io', repositories: ['quay.io/a/b'], madeDirectory: false };
    const rendered = renderHostsToml(hosts, mirror, withAbsolutePaths(parsed.table, '/etc/certs.d'));
    assert.equal(parseToml(rendered).kind, 'table');
    assert.deepEqual(parseHostsToml(rendered, mirror), { ...hosts, current: true });
  }
  const file = { kind: 'read', path: '/etc/a.conf', text } as const;
  const { entries } = mergeRegistries([file], crio);
  const repositories = ['docker.io/library/c', 'quay.io/a/b'];
  assert.deepEqual(parseRegistriesDropIn(renderRegistriesDropIn(repositories, mirror, entries), mirror), repositories);
  const pins = { ours: [`quay.io/a/b@sha256:${'0'.repeat(64)}`], foreign: effectivePins([file], crio).pins };
  const known = parsePinsDropIn(renderPinsDropIn(pins));
  assert.deepEqual(known?.ours, pins.ours);
  recoverPins(text);
  parseHostsToml(text, mirror);
  parseRegistriesDropIn(text, mirror);
  mirroredRepositories(text);
  reportedConfig({ config: text });
};

const dockerAnswers: Target = (data) => {
  const answer = json(data);
  for (const schema of [containerDetails, imageDetails, info]) v.safeParse(schema, answer);
  const [found, made] = [v.safeParse(image, answer), v.safeParse(container, answer)];
  const pins = made.success ? (pinOf(made.output) ?? []) : [];
  if (!found.success) return;
  const { repoTags } = toRuntimeImage(found.output, [pins].flat(), mirror);
  for (const tag of repoTags) assert.doesNotMatch(tag, /@/);
  loopbackNames(found.output, mirror);
};

/** The first byte is the size of the chunks. */
const dbus: Target = (data) => {
  const stream = data.subarray(1);
  assert.deepEqual(frames(stream, (data[0] ?? 0) + 1), frames(stream, stream.length || 1));
};

function frames(stream: Buffer, chunkBytes: number): unknown[] {
  const seen: unknown[] = [];
  const reader = createFrameReader({
    onHeader: (header) => {
      seen.push(header);
      return header.bodyBytes <= 64 * 1024;
    },
    onMessage: (header, body) => void seen.push(bodyOf(header, body)),
  });
  try {
    for (const chunk of cut(stream, chunkBytes)) reader(chunk);
  } catch (error) {
    if (!(error instanceof BusProtocolError)) throw error;
    seen.push(error.message);
  }
  return seen;
}

function bodyOf(header: MessageHeader, body: Buffer): unknown {
  try {
    return readBody(header, body);
  } catch (error) {
    assert(error instanceof Error);
    return 'refused';
  }
}

/** Files of the kernel, of udev and of systemd. */
const machine: Target = (data) => {
  const text = data.toString();
  for (const { device, mountPoint } of parseMountinfo(text)) assert(device !== undefined && mountPoint !== undefined);
  const sources = parseFstab(text);
  isInFstab(sources, parseUdevProperties(text));
  for (const uid of uidsIn(text).values()) assert(Number.isInteger(uid));
  for (const line of parts(data, 1)) assert.match(unitNameOfPath(line, 'mount'), /^[\w:.\\-]+\.mount$/);
  const request = diagRequest(1, { address: '127.0.0.1', port: 1 }, { address: '127.0.0.1', port: 2 });
  if (request !== undefined) diagReply(request, data);
};

/** Documents of the state and of its mirror. */
const state: Target = (data) => {
  const text = data.toString();
  const opened = openSeal(text);
  if (opened.kind === 'read') assert.deepEqual(openSeal(sealed(opened.value)), opened);
  const document = json(data);
  const hooks = parseHooks(document);
  if (hooks !== undefined) assert.deepEqual(parseHooks(hooksDocument(hooks)), hooks);
  parsePins(document);
  parseFloors(document);
  parsePauses(text);
  const sightings = parseSightings(text);
  parseSightings(sightingsText(sightings));
};

/** Names of members stay as they are. */
function valuesIn(value: unknown): readonly string[] {
  if (typeof value === 'string') return [value];
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(valuesIn) : [];
}

/** Texts of others, for terminals, the journal and reports. */
const texts: Target = (data) => {
  const text = decodeText(data);
  read(() => redactedFile(text, ['12345678']));
  assert.doesNotMatch(oneLine(text), /\p{Cc}/u);
  for (const length of [10, 200]) {
    assert(clip(text, length).length <= length);
    assert(cutAtWord(text, length).length <= length);
  }
  for (const one of valuesIn(plainDocument([json(data)]))) assert.doesNotMatch(one, /\p{Cs}/u);
};

export const nodeTargets: Readonly<Record<string, Target>> = {
  settings,
  'runtime-config': runtimeConfig,
  'docker-answers': dockerAnswers,
  dbus,
  machine,
  state,
  texts,
};
