/**
 * The arrows of docs/architecture.md: cli, api → engine → (ports) ← media, runtime, registry, store, host.
 * Each room names the rooms of ours that it may import; anything else is an error.
 */
const rooms = {
  platform: [],
  domain: ['platform'],
  config: ['domain', 'platform'],
  bundle: ['domain', 'platform', 'config'],
  engine: ['bundle', 'config', 'domain', 'platform'],
  media: ['engine', 'bundle', 'config', 'domain', 'platform'],
  registry: ['engine', 'bundle', 'config', 'domain', 'platform'],
  runtime: ['engine', 'bundle', 'config', 'domain', 'platform'],
  store: ['engine', 'bundle', 'config', 'domain', 'platform'],
  host: ['engine', 'bundle', 'config', 'domain', 'platform'],
  api: ['engine', 'bundle', 'config', 'domain', 'platform'],
  cli: ['api', 'engine', 'bundle', 'config', 'domain', 'platform'],
  doctor: ['host', 'runtime', 'engine', 'bundle', 'config', 'domain', 'platform'],
  factory: [
    'doctor',
    'cli',
    'daemon',
    'host',
    'media',
    'registry',
    'runtime',
    'engine',
    'bundle',
    'config',
    'domain',
    'platform',
  ],
};

/** Adapters reach the engine through its ports alone. */
const adapters = ['media', 'registry', 'runtime', 'store', 'host'];

module.exports = {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    { name: 'no-orphans', severity: 'error', from: { orphan: true, pathNot: '\\.d\\.ts$' }, to: {} },
    { name: 'not-to-dev-dep', severity: 'error', from: { path: '^src' }, to: { dependencyTypes: ['npm-dev'] } },
    {
      name: 'domain-is-pure',
      comment: 'No fs, no process, no randomness in domain: Node built-ins come in as values.',
      severity: 'error',
      from: { path: '^src/domain/' },
      to: { dependencyTypes: ['core'] },
    },
    {
      name: 'adapters-know-ports-only',
      severity: 'error',
      from: { path: `^src/(${adapters.join('|')})/` },
      to: { path: '^src/engine/', pathNot: '^src/engine/ports\\.ts$' },
    },
    { name: 'src-never-imports-test', severity: 'error', from: { path: '^src' }, to: { path: '^test' } },
    ...Object.entries(rooms).map(([room, allowed]) => ({
      name: `${room}-arrows`,
      severity: 'error',
      from: { path: `^src/${room}/` },
      to: { path: '^src/', pathNot: `^src/(${[room, ...allowed].join('|')})/` },
    })),
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
    },
  },
};
