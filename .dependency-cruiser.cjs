/**
 * The walls of docs/architecture.md. Each line names a room and the rooms that it may import;
 * anything else is an error. A room is a folder with all that is in it, unless folders of it are
 * named too.
 */
const domain = [
  'model',
  'fleet',
  'settings',
  'trust',
  'state',
  'adoption',
  'preload',
  'release',
  'activation',
  'assess',
  'decide',
  'report',
];
const bundle = ['', 'keys', 'format', 'documents', 'read', 'verify'];
const engine = ['reporting', 'tasks', '', 'keepers', 'effects', 'commands', 'loop'];
const core = ['bundle', 'config', 'domain', 'platform'];

/** Floors of one room: a folder may import those before it. */
const floors = (room, folders) =>
  Object.fromEntries(
    folders.map((folder, at) => [path(room, folder), folders.slice(0, at).map((below) => path(room, below))]),
  );
const path = (room, folder) => (folder === '' ? `${room}/[^/]+\\.ts` : `${room}/${folder}/`);

const rooms = {
  platform: [],
  domain: ['platform'],
  config: ['domain', 'platform'],
  bundle: ['domain', 'platform', 'config'],
  distribution: ['bundle', 'domain', 'platform'],
  factory: ['distribution', 'bundle', 'domain', 'platform'],
  ports: ['domain', 'platform'],
  engine: ['ports', ...core],
  media: ['ports', ...core],
  fleet: ['media', 'distribution', 'ports', ...core],
  registry: ['ports', ...core],
  runtime: ['ports', ...core],
  store: ['ports', ...core],
  'host/bus': ['platform'],
  host: ['ports', ...core],
  api: ['host/bus', 'engine', 'ports', ...core],
  cli: ['api', 'factory', 'distribution', 'engine', 'ports', ...core],
  doctor: core,
};

/** Inside the three largest rooms. */
const insides = {
  ...floors('domain', domain),
  ...floors('bundle', bundle),
  ...floors('engine', engine),
  ...floors('fleet', ['wire', 'daemon']),
};
/** What the fleet process loads, beside `fleet/wire`: its port with TLS, and the Kubernetes client. */
const fleetProcess =
  '^src/(app/(fleet|sources)|fleet/(identity|kubernetes|peers|publish|serve|sources))/|^src/fleet/[^/]+\\.ts$';

/** What the build puts into the program itself. Whoever installs the program does not need them. */
const bundledPackages = [
  '@grpc/grpc-js',
  '@grpc/proto-loader',
  '@noble/curves',
  '@sigstore/bundle',
  '@sigstore/protobuf-specs',
  '@sigstore/verify',
  'chokidar',
  'commander',
  'dbus-next',
  'pino',
  'prom-client',
  'semver',
  'toml',
  'valibot',
  'yaml',
];

module.exports = {
  forbidden: [
    { name: 'no-cycles', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'no-cycles-of-folders',
      comment: 'Folders side by side, at any depth: one is below the other.',
      severity: 'error',
      scope: 'folder',
      from: {},
      to: { circular: true },
    },
    { name: 'no-orphans', severity: 'error', from: { orphan: true, pathNot: '\\.d\\.ts$' }, to: {} },
    {
      name: 'no-tools-in-the-program',
      comment: 'Packages that are bundled into the program are development dependencies, as tools are: name them.',
      severity: 'error',
      from: { path: '^src' },
      to: { dependencyTypes: ['npm-dev'], pathNot: `node_modules/(${bundledPackages.join('|')})/` },
    },
    {
      name: 'domain-is-pure',
      comment: 'No fs, no process, no randomness in domain: Node built-ins come in as values.',
      severity: 'error',
      from: { path: '^src/domain/' },
      to: { dependencyTypes: ['core'] },
    },
    {
      name: 'factory-is-loaded-late',
      comment: 'Only commands and rehearsals load it, with import() when they need it. A node never does.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/factory/' },
      to: { path: '^src/factory/', dynamic: false, dependencyTypesNot: ['type-only'] },
    },
    { name: 'src-never-imports-test', severity: 'error', from: { path: '^src' }, to: { path: '^test' } },
    {
      name: 'app-is-the-top',
      comment: 'The composition root knows every room; only the entries know it.',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(app/|console\\.ts$|fleet\\.ts$|main\\.ts$|sources\\.ts$|stickpin\\.ts$)' },
      to: { path: '^src/app/' },
    },
    {
      name: 'daemon-is-not-the-fleet-process',
      comment: 'Each process loads only its own part of the fleet room.',
      severity: 'error',
      from: { path: '^src/(app/daemon|fleet/daemon)/' },
      to: { path: fleetProcess },
    },
    {
      name: 'fleet-process-is-not-the-daemon',
      severity: 'error',
      from: { path: fleetProcess },
      to: { path: '^src/fleet/daemon/' },
    },
    ...Object.entries(rooms).map(([room, allowed]) => ({
      name: `${room}-arrows`,
      severity: 'error',
      from: { path: `^src/${room}/` },
      to: { path: '^src/', pathNot: `^src/(${[room, ...allowed].join('|')})/` },
    })),
    ...Object.entries(insides).map(([folder, below]) => ({
      name: `${folder}-arrows`,
      severity: 'error',
      from: { path: `^src/${folder}` },
      to: { path: `^src/${folder.split('/')[0]}/`, pathNot: `^src/(${[folder, ...below].join('|')})` },
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
