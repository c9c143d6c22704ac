import { type CompletedCommand, pathOf, shellQuoted } from './command-words.ts';

/** Completion for zsh, as the file `_stickpin` of a folder in `fpath`. */
export function zshCompletion(commands: readonly CompletedCommand[]): string {
  return `#compdef stickpin
# Completion of stickpin for zsh, made from its command definitions.
_stickpin() {
  local command= word
  local -a names flags
  for word in "\${(@)words[2,CURRENT-1]}"; do
    case "\${command:+$command }$word" in
      ${commands
        .filter(({ path }) => path.length > 0)
        .map((command) => shellQuoted(pathOf(command)))
        .join(' | ')}) command=\${command:+$command }$word ;;
    esac
  done
  case "$command \${words[CURRENT-1]}" in
${values(commands)}
  esac
  case "$command" in
${commands.map(block).join('\n')}
  esac
  if [[ \${words[CURRENT]} == -* ]]; then
    _describe -o 'option' flags
  elif (( \${#names} )); then
    _describe 'command' names
  else
    _files
  fi
}
_stickpin "$@"
`;
}

function values(commands: readonly CompletedCommand[]): string {
  const lines = commands.flatMap((command) =>
    command.options
      .filter(({ takesValue }) => takesValue)
      .map(({ flags, choices }) => {
        const patterns = flags.map((flag) => shellQuoted(`${pathOf(command)} ${flag}`)).join(' | ');
        const reply = choices.length === 0 ? '_files' : `compadd -- ${choices.map(shellQuoted).join(' ')}`;
        return `    ${patterns}) ${reply}; return ;;`;
      }),
  );
  return lines.join('\n');
}

function block(command: CompletedCommand): string {
  const names = command.commands.map(({ name, description }) => described(name, description));
  const flags = command.options.flatMap((option) => option.flags.map((flag) => described(flag, option.description)));
  return `    ${shellQuoted(pathOf(command))})
      names=(${names.join(' ')})
      flags=(${flags.join(' ')}) ;;`;
}

/** A colon ends the word before the description. */
function described(word: string, description: string): string {
  return shellQuoted(`${word.replaceAll(':', '\\:')}:${description}`);
}
