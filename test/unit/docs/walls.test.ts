import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { expect, it } from 'vitest';

interface Rule {
  readonly name: string;
  readonly to: { readonly pathNot?: string };
}

const { forbidden } = createRequire(import.meta.url)('../../../.dependency-cruiser.cjs') as { forbidden: Rule[] };

/** What each room, or each folder of a room, may import, by the rules that the linter enforces. */
const arrows = new Map(
  forbidden
    .filter(({ name }) => name.endsWith('-arrows'))
    .map(({ name, to }) => {
      const [, allowed = ''] = /^\^src\/\((.*)\)\/?$/.exec(to.pathNot ?? '') ?? [];
      const from = cleaned(name.replace(/-arrows$/, ''));
      return [
        from,
        allowed
          .split('|')
          .map(cleaned)
          .filter((to) => to !== from),
      ] as const;
    }),
);

/**
 * `domain/model/` is the folder `domain/model`; `bundle/[^/]+\.ts` are the files of `bundle`
 * itself.
 */
function cleaned(path: string): string {
  return path.replace('[^/]+\\.ts', 'files').replace(/\/$/, '');
}

/** The arrows of `from` that no longer way says already. */
function shortest(from: string): readonly string[] {
  const all = arrows.get(from) ?? [];
  return all.filter((to) => !all.some((other) => other !== to && arrows.get(other)?.includes(to)));
}

const nodeOf = (path: string) => path.replaceAll('/', '_');

/** The picture of the documentation, made from the rules. */
function renderWalls(): string {
  const rooms = [...arrows.keys()].filter((room) => !room.includes('/'));
  const floorsOf = (room: string) => [...arrows.keys()].filter((path) => path.startsWith(`${room}/`));
  const inside = rooms
    .filter((room) => floorsOf(room).length > 0)
    .flatMap((room) => [
      `    subgraph ${room}`,
      '        direction LR',
      ...floorsOf(room).map((path) => `        ${nodeOf(path)}["${path.slice(room.length + 1)}"]`),
      ...floorsOf(room).flatMap((path) => shortest(path).map((to) => `        ${nodeOf(path)} --> ${nodeOf(to)}`)),
      '    end',
    ]);
  const isImported = (room: string) => rooms.some((other) => arrows.get(other)?.includes(room));
  const between = [
    ...rooms.filter((room) => !isImported(room)).map((room) => `    app --> ${room}`),
    ...rooms.flatMap((room) => shortest(room).map((to) => `    ${room} --> ${nodeOf(to)}`)),
  ];
  return ['```mermaid', 'flowchart TD', ...inside, ...between, '```'].join('\n');
}

it('docs/architecture.md shows the walls as .dependency-cruiser.cjs has them', () => {
  const text = readFileSync('docs/architecture.md', 'utf8');
  const [, between] = /<!-- walls:[^>]*-->\n([\s\S]*?)\n<!-- \/walls -->/.exec(text) ?? [];
  expect(between).toBe(renderWalls());
});

it('docs/architecture.md describes every room', () => {
  const text = readFileSync('docs/architecture.md', 'utf8');
  const rooms = [...arrows.keys()].filter((room) => !room.includes('/'));
  expect(rooms.length).toBeGreaterThan(10);
  expect(rooms.filter((room) => !text.includes(`| \`src/${room}\` |`))).toEqual([]);
});
