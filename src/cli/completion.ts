import { type Command, Help } from 'commander';
import { EXPLANATIONS } from '../domain/report/explain.ts';
import { assertNever } from '../platform/app-error.ts';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;
export type Shell = (typeof SHELLS)[number];

/** The kinds of names that `stickpin completion --names` prints. */
export const COMPLETED_NAMES = ['releases', 'streams'] as const;
export type CompletedNames = (typeof COMPLETED_NAMES)[number];

export function completionOf(shell: Shell, program: Command): string {
  const commands = withCommandsBelow(program);
  switch (shell) {
    case 'bash':
      return bashCompletion(commands);
    case 'zsh':
      return zshCompletion(commands);
    case 'fish':
      return fishCompletion(commands);
    default:
      return assertNever(shell);
  }
}

/** The completion files by their names in a package. */
export function completionFiles(program: Command) {
  return {
    'stickpin.bash': completionOf('bash', program),
    _stickpin: completionOf('zsh', program),
    'stickpin.fish': completionOf('fish', program),
  };
}

/** The completions of an operand: fixed words, or names that are read at completion. */
type CompletedOperand = { readonly words: readonly string[] } | { readonly names: CompletedNames };

/** Returns undefined for files, and for operands without completions. */
function operandOf(command: Command): CompletedOperand | undefined {
  const [operand] = command.registeredArguments;
  if (operand?.argChoices !== undefined) return { words: operand.argChoices };
  switch (operand?.name()) {
    case 'bundle':
      // The operand is a file for commands of the factory.
      return pathOf(command).startsWith('bundle ') ? undefined : { names: 'releases' };
    case 'release':
      return { names: 'releases' };
    case 'code':
      return { words: EXPLANATIONS.map(({ code }) => code) };
    case 'name':
    case 'stream':
      return { names: 'streams' };
    default:
      return undefined;
  }
}

/** Completion for bash 4 and later, as a file of /usr/share/bash-completion/completions. */
function bashCompletion(commands: readonly Command[]): string {
  return `# Completion of stickpin for bash, made from its command definitions.
_stickpin() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} path= word names= flags= known= before= i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    case "\${path:+$path }$word" in
      ${commandPatterns(commands)}) path=\${path:+$path }$word ;;
    esac
  done
  case "$path $prev" in
${valueBranches(commands, bashReply)}
  esac
  case "$path" in
${commands.map(bashBlock).join('\n')}
  esac
  # What is no command and no flag is a name, or a file.
  if [[ $cur == -* ]]; then
    names=$flags
  elif [[ -n $known ]]; then
    names=$("\${COMP_WORDS[0]}" completion --names "$known" 2>/dev/null)
    # NAME@VERSION is one word for people. For readline @VERSION is a word of its own.
    cur=\${COMP_LINE:0:COMP_POINT}
    cur=\${cur##*[[:space:]]}
    [[ \${COMP_WORDBREAKS-} == *@* && $cur == *@* ]] && before=\${cur%@*}
  fi
  mapfile -t COMPREPLY < <(compgen -W "$names" -- "$cur")
  if [[ -n $before ]]; then COMPREPLY=("\${COMPREPLY[@]#"$before"}"); fi
}
complete -o default -F _stickpin stickpin
`;
}

function bashReply(choices: readonly string[]): string {
  if (choices.length === 0) return 'COMPREPLY=()';
  return `mapfile -t COMPREPLY < <(compgen -W ${shellQuoted(choices.join(' '))} -- "$cur")`;
}

function bashBlock(command: Command): string {
  const operand = operandOf(command);
  const words = operand !== undefined && 'words' in operand ? operand.words : [];
  const names = [...command.commands.map((one) => one.name()), ...words].join(' ');
  const flags = optionsOf(command)
    .flatMap((option) => option.flags)
    .join(' ');
  const known = operand !== undefined && 'names' in operand ? ` known=${operand.names}` : '';
  return `    ${shellQuoted(pathOf(command))}) names=${shellQuoted(names)} flags=${shellQuoted(flags)}${known} ;;`;
}

/** The program, and all commands below it. */
function withCommandsBelow(command: Command): readonly Command[] {
  return [command, ...command.commands.flatMap(withCommandsBelow)];
}

interface CompletedOption {
  /** `--json`, or both `-y` and `--yes`. */
  readonly flags: readonly string[];
  readonly description: string;
  readonly takesValue: boolean;
  /** An empty list means any value, also the name of a file. */
  readonly choices: readonly string[];
}

function optionsOf(command: Command): readonly CompletedOption[] {
  return new Help().visibleOptions(command).map((option) => ({
    flags: [option.short, option.long].filter((flag) => flag != null),
    description: option.description,
    // The value of an optional one is given with `=`.
    takesValue: option.required && !option.optional,
    choices: option.argChoices ?? [],
  }));
}

/** The commands below the program as patterns of a `case`, which bash and zsh have alike. */
function commandPatterns(commands: readonly Command[]): string {
  return namesOf(commands).map(shellQuoted).join(' | ');
}

/**
 * The branches of a `case` in bash and zsh, for each option with a value. `reply`: the command of
 * the shell for its choices, which may be none.
 */
function valueBranches(commands: readonly Command[], reply: (choices: readonly string[]) => string): string {
  const lines = commands.flatMap((command) =>
    optionsOf(command)
      .filter(({ takesValue }) => takesValue)
      .map(({ flags, choices }) => {
        const patterns = flags.map((flag) => shellQuoted(`${pathOf(command)} ${flag}`)).join(' | ');
        return `    ${patterns}) ${reply(choices)}; return ;;`;
      }),
  );
  return lines.join('\n');
}

/** `text` as one word of a POSIX shell. */
function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** `bundle create`; empty for the program itself. */
function pathOf(command: Command): string {
  return command.parent === null ? '' : `${pathOf(command.parent)} ${command.name()}`.trim();
}

function namesOf(commands: readonly Command[]): readonly string[] {
  return commands.map(pathOf).filter((path) => path !== '');
}

/** Completion for fish 3, as a file of /usr/share/fish/vendor_completions.d. */
function fishCompletion(commands: readonly Command[]): string {
  const known = namesOf(commands).map(quoted);
  return `# Completion of stickpin for fish, made from its command definitions.
function __stickpin_at --description 'Whether the command so far is the given one'
    set --local command ''
    for word in (commandline --tokenize --cut-at-cursor --current-process)[2..-1]
        set --local longer (string trim -- "$command $word")
        if contains -- $longer ${known.join(' ')}
            set command $longer
        end
    end
    test "$command" = "$argv[1]"
end
${commands.flatMap(linesOf).join('\n')}
`;
}

function linesOf(command: Command): readonly string[] {
  const start = `complete --command stickpin --condition ${quoted(`__stickpin_at ${quoted(pathOf(command))}`)}`;
  const names = command.commands.map(
    (one) => `${start} --no-files --arguments ${one.name()} --description ${quoted(one.description())}`,
  );
  const options = optionsOf(command).map(({ flags, description, takesValue, choices }) => {
    const words = flags.map((flag) =>
      flag.startsWith('--') ? `--long-option ${flag.slice(2)}` : `--short-option ${flag.slice(1)}`,
    );
    const value = takesValue ? ' --require-parameter' : '';
    const given = choices.length === 0 ? '' : ` --no-files --arguments ${quoted(choices.join(' '))}`;
    return `${start} ${words.join(' ')}${value}${given} --description ${quoted(description)}`;
  });
  return [...names, ...operandLines(command, start), ...options];
}

function operandLines(command: Command, start: string): readonly string[] {
  const operand = operandOf(command);
  if (operand === undefined) return [];
  const offered =
    'words' in operand ? operand.words.join(' ') : `(stickpin completion --names ${operand.names} 2>/dev/null)`;
  return [`${start} --no-files --arguments ${quoted(offered)}`];
}

/** `text` as one word of fish. */
function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}

/** Completion for zsh, as the file `_stickpin` of a folder in `fpath`. */
function zshCompletion(commands: readonly Command[]): string {
  return `#compdef stickpin
# Completion of stickpin for zsh, made from its command definitions.
_stickpin() {
  local command= word known=
  local -a names flags
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "\${command:+$command }$word" in
      ${commandPatterns(commands)}) command=\${command:+$command }$word ;;
    esac
  done
  case "$command \${words[CURRENT-1]}" in
${valueBranches(commands, zshReply)}
  esac
  case "$command" in
${commands.map(zshBlock).join('\n')}
  esac
  if [[ \${words[CURRENT]} == -* ]]; then
    _describe -o 'option' flags
  elif [[ -n $known ]]; then
    compadd -- \${(f)"$("\${words[1]}" completion --names $known 2>/dev/null)"}
  elif (( \${#names} )); then
    _describe 'command' names
  else
    _files
  fi
}
_stickpin "$@"
`;
}

function zshReply(choices: readonly string[]): string {
  return choices.length === 0 ? '_files' : `compadd -- ${choices.map(shellQuoted).join(' ')}`;
}

function zshBlock(command: Command): string {
  const operand = operandOf(command);
  const words = operand !== undefined && 'words' in operand ? operand.words.map(shellQuoted) : [];
  const names = [...command.commands.map((one) => described(one.name(), one.description())), ...words];
  const known = operand !== undefined && 'names' in operand ? `\n      known=${operand.names}` : '';
  const flags = optionsOf(command).flatMap((option) => option.flags.map((flag) => described(flag, option.description)));
  return `    ${shellQuoted(pathOf(command))})${known}
      names=(${names.join(' ')})
      flags=(${flags.join(' ')}) ;;`;
}

/** A colon ends the word before the description. */
function described(word: string, description: string): string {
  return shellQuoted(`${word.replaceAll(':', '\\:')}:${description}`);
}
